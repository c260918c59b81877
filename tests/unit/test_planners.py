"""Planners: language models, local models, functions, and the trained one."""

import json

import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError, InvalidPlanError, LanguageModelError
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.plan import TypeSchema
from graph_retrievers.systems.mor.planner import CausalPlanner, LanguageModelPlanner, as_planner, planning_prompt
from graph_retrievers.systems.mor.retriever import MoR
from graph_retrievers.systems.mor.trained import TrainedPlanner, same_plan
from tests.helpers import HashEmbedding
from tests.movies import FILMS, PEOPLE, movie_edges, movie_nodes

DIRECTED = [{"type": "person", "restriction": "Ada Stone"}, {"type": "movie", "relation": "directed_by"}]


@pytest.fixture(scope="module")
def index():
    return GraphIndex.from_nodes(movie_nodes(), movie_edges(), embedding=HashEmbedding())


def test_a_language_model_plans_from_schema_and_examples(index):
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return json.dumps({"paths": [DIRECTED]})

    planner = LanguageModelPlanner(model)
    hits = Retriever(index, MoR(planner=planner, rerank=False)).retrieve("What did Ada Stone direct?", 1)
    assert hits[0].id == "m0" and hits.notes == ()
    assert "movie -[directed_by]-> person" in prompts[0] and "What did Ada Stone direct?" in prompts[0]
    assert "galaxy rotation curves" in prompts[0]
    # A plan of the caller's is not asked for again.
    Retriever(index, MoR(planner=planner)).retrieve("What did Ada Stone direct?", plan=DIRECTED)
    assert len(prompts) == 1


def test_a_language_model_that_fails_costs_one_question_its_plan(index):
    def model(prompt):
        if "Bruno" in prompt.rsplit("Question:", 1)[1]:
            return "I would rather not."
        return json.dumps({"paths": [DIRECTED]})

    planner = LanguageModelPlanner(model, attempts=2)
    plans = planner.plan(["Ada Stone?", "Bruno Vale?"], index.graph)
    assert isinstance(plans[1], LanguageModelError)
    good, bad = Retriever(index, MoR(planner=planner, rerank=False)).retrieve_batch(["films of Ada Stone", "films of Bruno Vale"])
    assert good.notes == () and "No answer of the language model" in bad.notes[0]


def test_examples_of_ones_own_stand_in_the_prompt(index):
    prompt = planning_prompt('Say "hello"', TypeSchema.of(index.graph), [("Who directed X?", DIRECTED)])
    assert "Who directed X?" in prompt and "galaxy" not in prompt and prompt.endswith('Question: "Say \\"hello\\""\nPlan:')


def test_any_function_is_a_planner(index):
    assert Retriever(index, MoR(planner=lambda question: DIRECTED)).retrieve("Ada Stone", 1)[0].id == "m0"
    with pytest.raises(InvalidArgumentError):
        as_planner("llama")


def test_a_local_causal_model_writes_the_plan(index, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<unk>", "</s>", "films", "of", "Ada", "{", "}"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>").save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=7, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path, safe_serialization=True)
    planner = CausalPlanner(tmp_path, max_new_tokens=5, batch_size=2)
    questions = ["films of Ada", "Ada", "of of of"]
    texts = planner.plan(questions, index.graph)
    assert len(texts) == 3 and all(isinstance(text, str) for text in texts)
    # Greedy, and batched as it is alone.
    assert texts == [planner.plan([question], index.graph)[0] for question in questions]
    hits = Retriever(index, MoR(planner=planner)).retrieve("films of Ada")
    assert "ext retrieval was used" in hits.notes[0]


# -- the trained planner ----------------------------------------------------------------------------------------------

FORMS = [
    ("which films did {} direct", "person", [("movie", "directed_by")]),
    ("the movies directed by {}", "person", [("movie", "directed_by")]),
    ("which films did {} write", "person", [("movie", "written_by")]),
    ("the movies written by {}", "person", [("movie", "written_by")]),
    ("what genre is {}", "movie", [("genre", "has_genre")]),
    ("the genres of films directed by {}", "person", [("movie", "directed_by"), ("genre", "has_genre")]),
]


def questions(names):
    pairs = []
    for form, kind, steps in FORMS:
        for name in names[kind]:
            plan = [{"type": kind, "restriction": name}, *({"type": t, "relation": r} for t, r in steps)]
            pairs.append((form.format(name), plan))
    return pairs


@pytest.fixture(scope="module")
def planner(index):
    train = questions({"person": PEOPLE[:4], "movie": FILMS[:4]})
    dev = questions({"person": PEOPLE[4:5], "movie": FILMS[4:5]})
    return TrainedPlanner.fit(train, dev, index.graph, epochs=15)


def test_a_planner_learns_forms_and_names_it_has_not_seen(index, planner, tmp_path):
    trained, history = planner
    assert (history.classes, history.left_out, history.best_score) == (4, 0, 1.0)
    test = questions({"person": PEOPLE[5:], "movie": FILMS[5:]})
    plans = trained.plan([question for question, _ in test], index.graph)
    assert all(same_plan(plan, read_plan(wanted)) for plan, (_, wanted) in zip(plans, test, strict=True))
    trained.save(tmp_path)
    again = TrainedPlanner.load(tmp_path)
    assert again.plan([q for q, _ in test], index.graph) == plans
    hits = Retriever(index, MoR(checkpoint=tmp_path)).retrieve("the movies directed by Fay North", 1)
    assert hits[0].id == "m5"


def test_training_is_repeatable(index, planner):
    train = questions({"person": PEOPLE[:4], "movie": FILMS[:4]})
    dev = questions({"person": PEOPLE[4:5], "movie": FILMS[4:5]})
    again, _ = TrainedPlanner.fit(train, dev, index.graph, epochs=15)
    assert torch.equal(again.model.weight, planner[0].model.weight)


def test_a_planner_without_usable_questions_says_so(index):
    with pytest.raises(InvalidArgumentError, match="word for word"):
        TrainedPlanner.fit([("which films?", DIRECTED)], [], index.graph)


def test_an_unsure_planner_gives_no_plan(index, planner):
    trained = TrainedPlanner(planner[0].skeletons, threshold=0.999)
    assert isinstance(trained.plan(["something else"], index.graph)[0], InvalidPlanError)
    assert "not sure" in Retriever(index, MoR(planner=trained)).retrieve("something else").notes[0]


@pytest.mark.parametrize("damage", ["missing", "weights", "config"])
def test_a_damaged_checkpoint_is_an_error(index, planner, tmp_path, damage):
    planner[0].save(tmp_path)
    if damage == "missing":
        (tmp_path / "planner.safetensors").unlink()
    if damage == "weights":
        (tmp_path / "planner.safetensors").write_bytes(b"\x00" * 50)
    if damage == "config":
        (tmp_path / "planner.json").write_text("{}")
    with pytest.raises(InvalidArgumentError):
        Retriever(index, MoR(checkpoint=tmp_path))
    with pytest.raises(InvalidArgumentError, match="neither a planner nor"):
        Retriever(index, MoR(checkpoint=tmp_path / "nowhere"))
