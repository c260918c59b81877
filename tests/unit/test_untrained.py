"""What is not trained is refused or says what ranks instead, and nothing draws from the generators of the process."""

import json
import logging
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from graph_retrievers import HyDE, Retriever
from graph_retrievers.commands.cli import main
from graph_retrievers.errors import InvalidArgumentError, ModelHeadError, UnexpectedArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.loop import fit
from graph_retrievers.operators import AnswerNetwork, TripleScorer
from graph_retrievers.seeding import seeded, seeded_weights
from graph_retrievers.signals.sentence_encoder import SentenceEncoder
from graph_retrievers.signals.sparse_encoders import Splade
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.grag.retriever import GRAG
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.mor.reranker import TrajectoryScorer
from graph_retrievers.systems.mor.trained import TrainedPlanner
from langchain_graph_retrievers import GRAGCompressor
from langchain_graph_retrievers import GRAGRetriever as LangChainGRAG
from llama_graph_retrievers import GRAGPostprocessor, provenance
from llama_graph_retrievers import GRAGRetriever as LlamaGRAG
from tests.helpers import HashEmbedding, as_edges, linked_edges, linked_index, linked_nodes
from tests.movies import movie_edges, movie_nodes
from tests.retrievers import EVERY, on

QUESTION = "Which engine did Ada Lovelace write for?"
REFUSED = r"no trained weights, and would rank at random\. Train it with `graph-retrievers fit g-rag --paper`"


def states():
    return torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())


def begun_with(seed):
    """Begin all generators of the process with a seed, and return their states."""
    torch.manual_seed(seed), random.seed(seed), np.random.seed(seed)
    return states()


# -- every retriever by name -------------------------------------------------------------------------------------------


# The network of its paper, which is not trained.
PAPER_LESEGR = {"model": {"encoder": "transformer", "layers": 2, "hidden": 1024, "heads": 4, "hub_exponent": 0.0}, "hops": None}


def answered(name, index, options, seed):
    """Return what a retriever found, or why it was refused."""
    before = begun_with(seed)
    try:
        made = on(index, name, **options)
        found = [(hit.id, hit.score) for hit in made.retrieve(QUESTION, 5)]
    except InvalidArgumentError as error:
        found = str(error)
    assert states() == before
    return found


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in EVERY), ("lesegr", PAPER_LESEGR), ("g-rag", {"network": {"hidden": 8}})]
)
def test_two_constructions_find_the_same_whatever_was_drawn_before(name, options):
    index = linked_index(edge_signals=True)
    first, second = (answered(name, index, options, seed) for seed in (1, 2))
    assert first == second and first
    assert isinstance(first, str) == ("network" in options)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("g-rag", "the network is not trained (pass checkpoint=): documents are scored by rank, similarity and concepts"),
        ("lesegr", "the model is not trained (pass checkpoint=): the score is the product of the sparse and the dense one"),
        ("subgraph-rag", "the network is not trained (pass checkpoint=): triples are scored by the similarity of the question"),
        ("gnn-rag", "the network is not trained (pass checkpoint=): nodes are ordered by their similarity to the question"),
        ("mor", "the reranker is not trained (pass checkpoint=): candidates are ordered by similarity"),
    ],
)
def test_what_ranks_without_training_is_told_in_the_notes(name, instead):
    index = linked_index()
    for options in ({}, PAPER_LESEGR) if name == "lesegr" else ({},):
        assert any(note.startswith(instead) for note in on(index, name, **options).retrieve(QUESTION).notes)
    for around in ("path-reranking", "g-rag"):
        behind = on(index, around, first=name)
        assert any(note.startswith(instead) for note in behind.retrieve(QUESTION).notes)
        assert any("trained" in need for need in behind.lacks())
    searching = Retriever(index, HyDE(search=name))
    assert any(note.startswith(instead) for note in searching.retrieve(QUESTION).notes)


def test_a_published_network_that_is_not_trained_is_told(caplog):
    index = linked_index()
    network = DocumentGraphNetwork(index.dense.dimension, seed=3)
    note = "the network is not trained (pass checkpoint=): documents are ranked at random"
    found = Retriever(index, GRAG(network=network))
    assert found.retrieve(QUESTION).notes.count(note) == 1 and "a trained network (pass checkpoint=)" in found.lacks()
    assert not caplog.records
    GRAGCompressor(network=network, index=index)
    assert [record.getMessage() for record in caplog.records] == [f"G-RAG: {note}."]
    with torch.no_grad():
        network.convs[0].own.bias += 1
    assert note not in Retriever(index, GRAG(network=network)).retrieve(QUESTION).notes


@pytest.mark.parametrize("given", ["gcn", True, DocumentGraphNetwork])
def test_what_is_not_a_network_is_refused(given):
    with pytest.raises(InvalidArgumentError, match="^network is .*; expected an EvidenceNetwork or a DocumentGraphNetwork"):
        Retriever(linked_index(), GRAG(network=given))
    with pytest.raises(InvalidArgumentError, match="^model is .*; expected a LeSeGRModel or a mapping"):
        Retriever(linked_index(), LeSeGR(model=given))


def test_a_keyword_that_a_model_does_not_take_is_refused():
    with pytest.raises(UnexpectedArgumentError, match="encodr.*Did you mean 'encoder'"):
        Retriever(linked_index(), LeSeGR(model={"encodr": "gcn"}))


@pytest.mark.process
def test_the_first_question_of_grag_draws_no_random_number():
    code = (
        "import random; from graph_retrievers.signals.concept_parser import ConceptParser; before = random.getstate(); "
        "ConceptParser().parse(['Ada wrote.']); print(random.getstate() == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_published_grag_without_weights_is_refused_everywhere(tmp_path, capsys):
    index = linked_index()
    for make in (
        lambda: Retriever(index, "g-rag(network={'hidden': 8})"),
        lambda: Retriever(index, GRAG(network={"hidden": 16})),
        lambda: LangChainGRAG(index=index, system=GRAG(network={"hidden": 16})),
        lambda: LlamaGRAG(index, GRAG(network={"hidden": 16})),
    ):
        with pytest.raises(InvalidArgumentError, match=REFUSED):
            make()
    index.save(tmp_path / "index")
    status = main(["search", str(tmp_path / "index"), QUESTION, "--retriever", "g-rag(network={'hidden': 16})"])
    assert status == 2 and "would rank at random" in capsys.readouterr().err


def test_the_command_line_and_both_frameworks_tell_what_is_not_trained(tmp_path, capsys, caplog):
    GraphIndex.from_nodes(linked_nodes(), linked_edges()).save(tmp_path / "index")
    assert main(["search", str(tmp_path / "index"), QUESTION, "--retriever", "mor", "--json"]) == 0
    assert any("not trained" in note for note in json.loads(capsys.readouterr().out)["notes"])
    index, embedding = linked_index(), HashEmbedding()
    with caplog.at_level(logging.INFO):
        LangChainGRAG(index=index).invoke(QUESTION)
    assert "the network is not trained" in caplog.text
    assert "the network is not trained" in provenance(LlamaGRAG(index).retrieve(QUESTION)[0])["notes"][0]
    for make in (lambda: GRAGCompressor(embedding=embedding), lambda: GRAGPostprocessor(embed_model=embedding)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            make()
        assert ["not trained" in record.message for record in caplog.records] == [True]


# -- networks and training ---------------------------------------------------------------------------------------------

NETWORKS = {
    "evidence": lambda seed: EvidenceNetwork(seed=seed),
    **{
        f"published {layer}": lambda seed, layer=layer: DocumentGraphNetwork(8, layer, seed=seed)
        for layer in ("gcn", "gat", "sage", "gin", "none")
    },
    **{
        f"lesegr {encoder}": lambda seed, encoder=encoder: LeSeGRModel(8, encoder, hidden=8, seed=seed)
        for encoder in ("sum", "gcn", "gat", "transformer")
    },
    "answers": lambda seed: AnswerNetwork(8, hidden=4, seed=seed),
    "triples": lambda seed: TripleScorer(8, seed=seed),
    "mor": lambda seed: TrajectoryScorer(2, 8, 4, seed=seed),
}


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_the_weights_of_a_network_follow_from_its_seed_alone(make):
    made = []
    for begin, seed in ((1, 0), (2, 0), (1, 7)):
        before = begun_with(begin)
        made.append(make(seed).state_dict())
        assert states() == before
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert not all(torch.equal(made[0][name], made[2][name]) for name in made[0])


def test_a_planner_draws_nothing():
    graph = CorpusGraph.from_nodes(movie_nodes(), as_edges(*movie_edges()))
    plan = [{"type": "person", "restriction": "Cleo Marsh"}, {"type": "movie"}]
    before = begun_with(3)
    planner, _ = TrainedPlanner.fit([("films with Cleo Marsh", plan)] * 2, [("films with Cleo Marsh", plan)], graph, epochs=2)
    assert states() == before and planner.model.weight.requires_grad


def trained(seed, begin):
    """Return the weights that a training with dropout, and a generator of batches, comes to."""
    before = begun_with(begin)
    with seeded_weights(seed):
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    batches = lambda generator: [torch.rand(4, 4, generator=generator)]  # noqa: E731
    fit(module, batches, lambda x: module(x).pow(2).mean(), lambda: 0.0, epochs=3, seed=seed, learning_rate=0.1)
    assert states() == before
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def test_a_training_follows_from_its_seed_alone():
    one, two, other = trained(0, 1), trained(0, 2), trained(1, 1)
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_a_training_that_fails_leaves_the_generator_too():
    module = nn.Linear(1, 1)
    before = begun_with(5)
    with pytest.raises(ZeroDivisionError):
        fit(module, lambda generator: [torch.rand(1, 1)], lambda x: module(x).sum(), lambda: 1 / 0, epochs=1)
    assert states() == before
    with pytest.raises(InvalidArgumentError, match="seed is -1"), seeded(-1):
        pass


# -- models of transformers --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory, shared_folder):
    """Models without a pooler, and without the head of a masked language model."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

    config = BertConfig(vocab_size=30522, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    tokenizer = AutoTokenizer.from_pretrained(shared_folder / "models" / "minilm-reranker")
    made = {}
    for kind in (BertForMaskedLM, BertModel):
        made[kind.__name__] = folder = tmp_path_factory.mktemp("models") / kind.__name__
        kind(config).save_pretrained(folder), tokenizer.save_pretrained(folder)
    return made


def test_an_embedding_model_without_a_pooler_is_loaded_and_draws_nothing(folders):
    before = begun_with(1)
    SentenceEncoder(str(folders["BertForMaskedLM"])).embed_query("a loom")
    assert states() == before


def test_a_sparse_encoder_without_its_head_is_refused(folders):
    with pytest.raises(ModelHeadError, match=r"no weights for cls\.predictions.* it is not a trained sparse encoder"):
        Splade(str(folders["BertModel"])).encode(["a loom"])
