"""LinearRAG in PostgreSQL: a pushed walk beside the solved one in memory, and what changes leave of sentences and names."""

import os
import random

import numpy as np
import pytest

from graph_retrievers import GraphIndex, LinearRAG, Node, Retriever
from graph_retrievers.errors import DatabaseError, DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import TriGraphSearch
from graph_retrievers.signals.named_sentences import passage_names
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresSentences,
    open_index,
    read_index,
    update_index,
    write_index,
)
from graph_retrievers.stores.postgres.writer import write_graph
from graph_retrievers.systems.linear_rag.tri_graph import tri_graph
from tests.helpers import HashEmbedding
from tests.postgres import contents
from tests.walks import check_near

pytestmark = [pytest.mark.slow, pytest.mark.database]
MODEL = HashEmbedding(16)
# GRAPH_RETRIEVERS_CASES=1000 compares so many.
CASES = int(os.environ.get("GRAPH_RETRIEVERS_CASES", 30))
NAMES = ["Ada Holm", "Otto Veld", "Lund", "Kismet", "the Ida Mill", "Åse", "Nils"]
WORDS = ["met", "left", "saw", "sang of", "built"]
QUESTIONS = ["Who met Ada Holm in Lund?", "What of Otto Veld?", "Which Kismat is it?", "who sang?"]
SYSTEMS = {
    "default": LinearRAG(),
    "easily": LinearRAG(threshold=0.0, damping=0.5),
    "much by similarity": LinearRAG(threshold=0.1, passage_weight=2.0, similarity_weight=3.0),
    "names alone": LinearRAG(passage_weight=0, iterations=1),
    "other passages": LinearRAG(passage_type="page", threshold=0.2),
}
FILTERS = [
    {},
    {"filter": {"year": {"$ne": 1}}},
    {"seed_filter": {"year": {"$ne": 0}}},
    {"traversal_filter": {"year": {"$ne": 2}}},
    {"scope": {"year": {"$in": [0, 1, 3]}}},
]


def sentence(draw):
    return f"{draw.choice(NAMES)} {draw.choice(WORDS)} {draw.choice([*NAMES, 'a loom'])}."


def random_nodes(seed):
    """Passages that name each other's names, of two types or one, some with a title, and nodes without a text."""
    draw = random.Random(seed)
    kinds = [("passage", "page"), ("passage", ""), ("",)][seed % 3]
    return [
        Node(
            f"n{row}",
            " ".join(sentence(draw) for _ in range(draw.randint(0, 3))),
            draw.choice(["", "", draw.choice(NAMES), f"{draw.choice(NAMES)} (film)"]),
            kinds[row] if row < len(kinds) else draw.choice(kinds),
            # A scope has both kinds.
            {"year": 3 if row < len(kinds) else row % 3},
        )
        for row in range(draw.randint(3, 30))
    ]


def index_of(nodes):
    return GraphIndex.from_nodes(nodes, [], embedding=MODEL, metric="cosine")


def check(remote, index, filters=FILTERS):
    """Compare all systems, and batches with their questions one by one; return the number of hits."""
    hits = 0
    for system in SYSTEMS.values():
        for condition in filters:
            there, here = (
                Retriever(each, system, k=8, backfill=False).retrieve_batch(QUESTIONS, **condition) for each in (remote, index)
            )
            check_near(there, here, paths_too=False)
            hits += sum(map(len, there))
        one = Retriever(remote, system, k=8, backfill=False)
        for question, found in zip(QUESTIONS, one.retrieve_batch(QUESTIONS), strict=True):
            assert [(hit.id, hit.score, hit.path.text) for hit in one.retrieve(question)] == [
                (hit.id, hit.score, hit.path.text) for hit in found
            ]
    return hits


@pytest.mark.parametrize("part", range(5))
def test_walks_are_those_in_memory_on_random_texts(part, postgres):
    hits = 0
    for seed in range(part, CASES, 5):
        index = index_of(random_nodes(seed))
        write_index(index, postgres, str(seed), sentences=True)
        hits += check(open_index(postgres, str(seed), embedding=MODEL), index)
    assert hits > 1000 * CASES / 30


class FromTheNearest(TriGraphSearch):
    """The walk in memory, with the restart weights of a walk in a database: by similarity at the 100 nearest passages."""

    name = "TriGraphSearch"

    def _similar(self, queries, places):
        weights, passages = super()._similar(queries, places), tri_graph(queries.index.graph, self.extractor, "passage").passages
        for own in weights:
            rows = passages.nonzero().flatten().tolist()
            own[sorted(rows, key=lambda row: (-float(own[row]), row))[100:]] = 0
        return weights


def test_of_many_passages_the_100_nearest_begin_the_walk(postgres, monkeypatch):
    draw = random.Random(0)
    nodes = [Node(f"p{row}", " ".join(sentence(draw) for _ in range(3)), "", "passage", {"row": row}) for row in range(250)]
    nodes += [Node(f"e{row}", "", draw.choice(NAMES), "entity") for row in range(20)]
    index = index_of(nodes)
    write_index(index, postgres, "many", sentences=True)
    remote = open_index(postgres, "many", embedding=MODEL)
    walk = FromTheNearest(threshold=0.1, damping=0.85)
    here = Retriever(index, walk, k=20, backfill=False).retrieve_batch(QUESTIONS)
    check_near(Retriever(remote, LinearRAG(threshold=0.1), k=20, backfill=False).retrieve_batch(QUESTIONS), here, paths_too=False)
    assert all(hit.id.startswith("p") for hits in here for hit in hits)
    # The filter is passed by a few of the passages to which the walk comes.
    late = {"filter": {"row": {"$gte": 230}}, "seed_filter": {}}
    there, here = (
        Retriever(each, system, k=20, backfill=False).retrieve_batch(QUESTIONS, **late)
        for each, system in ((remote, LinearRAG(threshold=0.1)), (index, walk))
    )
    check_near(there, here, paths_too=False)
    assert len(there[0]) == 20
    # Where the walk ends early, the hits say how far it came.
    few = open_index(postgres, "many", embedding=MODEL, max_nodes=800)
    hits = Retriever(few, LinearRAG(), k=5).retrieve(QUESTIONS[0])
    assert any(note.startswith("the walk ended at max_nodes") for note in hits.notes) and len(hits) == 5
    # Names with many passages are not asked for where these are more than are left.
    counts, mentions = list[int](), PostgresSentences.mentions

    def counting(*asked):
        answers = mentions(*asked)
        counts.extend(len(table) for answer in answers for table in answer.values())
        return answers

    monkeypatch.setattr(PostgresSentences, "mentions", counting)
    few = open_index(postgres, "many", embedding=MODEL, max_nodes=1200)
    hits = Retriever(few, LinearRAG(threshold=0.99), k=5).retrieve("What of Nils?")
    assert any(note.startswith("the walk ended at max_nodes") for note in hits.notes) and sum(counts) <= 1200


@pytest.mark.parametrize(("iterations", "names"), [(1, ["Nils Holm"]), (0, ["Lund", "Nils Holm", "Åse Ek"])])
def test_names_in_more_sentences_or_passages_than_max_nodes_are_refused(postgres, iterations, names):
    """A name is in 60 sentences, or three names are in 20 passages each; without iterations, no sentence is read."""
    nodes = [Node(f"p{row}", "In Lund, Nils Holm met Åse Ek. " * 3) for row in range(20)]
    write_index(index_of(nodes), postgres, "many", sentences=True)
    walk = LinearRAG(iterations=iterations, threshold=1, passage_weight=0)
    fewer, enough = (
        Retriever(open_index(postgres, "many", embedding=MODEL, max_nodes=most), walk, k=1, backfill=False) for most in (59, 80)
    )
    with pytest.raises(DatabaseError, match="needs more than max_nodes=59 nodes"):
        fewer.retrieve("Who?", entities=names)
    assert len(enough.retrieve("Who?", entities=names)) == 1


def test_nodes_without_a_text_take_no_place_of_a_passage(postgres):
    """They are nearer to the questions than most passages, and have the type of these."""
    draw = random.Random(1)
    nodes = [Node(f"e{row}", "", draw.choice(QUESTIONS)) for row in range(300)]
    nodes += [Node(f"p{row}", " ".join(sentence(draw) for _ in range(2))) for row in range(60)]
    index = index_of(nodes)
    write_index(index, postgres, "mixed", sentences=True)
    there, here = (
        Retriever(each, LinearRAG(passage_weight=2.0), k=20, backfill=False).retrieve_batch(QUESTIONS)
        for each in (open_index(postgres, "mixed", embedding=MODEL), index)
    )
    check_near(there, here, paths_too=False)


# -- changes ----------------------------------------------------------------------------------------------------------


def stored(database, name):
    """All that the tables hold of names, mentions and sentences."""
    return contents(database, name)[5:]


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_leave_what_one_write_leaves(postgres, seed, monkeypatch):
    """In blocks of a few nodes; what is open follows."""
    monkeypatch.setattr("graph_retrievers.stores.postgres.sentences._BLOCK", 3)
    draw = random.Random(seed)
    index = index_of(random_nodes(seed))
    report = write_index(index, postgres, "works", sentences=True)
    assert report.sentences == len(stored(postgres, "works")[2])
    retriever = Retriever(open_index(postgres, "works", embedding=MODEL), LinearRAG(threshold=0.1), k=8, backfill=False)
    for step in range(6):
        present = index.graph.ids
        gone = draw.sample(present, min(draw.choice([0, 1, 3]), len(present) - 1))
        new = draw.sample(random_nodes(100 * seed + step), draw.choice([0, 1, 2]))
        change = {"upsert": new, "delete": gone}
        changed = index.with_changes(**change)
        index = index_of([changed.graph.node(row) for row in range(len(changed))])
        if draw.random() < 0.3:
            write_index(index, postgres, "works", replace=True, sentences=True)
        else:
            update_index(postgres, "works", **change, embedding=MODEL)
        write_index(index, postgres, "whole", replace=True, sentences=True)
        assert stored(postgres, "works") == stored(postgres, "whole"), step
        check_near(
            retriever.retrieve_batch(QUESTIONS),
            Retriever(index, LinearRAG(threshold=0.1), k=8, backfill=False).retrieve_batch(QUESTIONS),
            paths_too=False,
        )


TEXTS = ["The film stars Ada Holm.", "In Lund, Ada Holm met Otto Veld.", "A mill of Otto Veld.", "A loom."]
NODES = [Node(str(row), text) for row, text in enumerate(TEXTS)]


class Recorder(HashEmbedding):
    """A model that keeps the texts that it was given."""

    def __init__(self, dimension=16, name="recorder"):
        super().__init__(dimension)
        self.name, self.asked = name, []

    def embed_documents(self, texts):
        self.asked += texts
        return super().embed_documents(texts)


def test_only_what_is_new_is_embedded(postgres):
    model = Recorder()

    def asked(**change):
        model.asked.clear()
        update_index(postgres, "works", **change, embedding=model)
        return sorted(model.asked)

    assert asked(upsert=NODES) == sorted(TEXTS) and "sentences" not in open_index(postgres, "works").store.corpus.settings
    # The sentences of those that are there; the only name of the first text leads nowhere from its sentence.
    assert asked(sentences=True) == sorted(["Ada Holm", "Lund", "Otto Veld", TEXTS[1]])
    assert asked(sentences=True) == asked(upsert=[NODES[1]]) == []
    assert asked(upsert=[Node("4", "Ada Holm left Kismet.")]) == sorted(["Ada Holm left Kismet."] * 2 + ["Kismet"])
    # A name that no passage has any more is gone, and embedded again when it comes back.
    assert asked(delete=["4"]) == [] and "kismet" not in stored(postgres, "works")[0]
    assert "Kismet" in asked(upsert=[Node("4", "Ada Holm left Kismet.")])
    version = PostgresCorpus(postgres, "works").version
    assert asked(delete=["4"]) == [] and PostgresCorpus(postgres, "works").version == version + 1
    # Without the model, nothing new is read, and what is there can be deleted.
    with pytest.raises(
        MissingSignalError, match="1 names and sentences have no vectors of their texts, such as 'Nils'; pass embedding="
    ):
        update_index(postgres, "works", upsert=[Node("5", "She met Nils.", embedding=np.ones(16))])
    update_index(postgres, "works", delete=["3"])
    hits = Retriever(open_index(postgres, "works", embedding=model), LinearRAG(threshold=0), backfill=False).retrieve(
        "Who is Ada Holm?"
    )
    assert {hit.path.text for hit in hits} == {"0", "1", '1 -["Otto Veld"]- 2'}


def test_of_equal_sentences_a_path_goes_through_that_of_the_first_passage(postgres):
    """Whose sentences have higher numbers after a change."""
    nodes = [Node("0", TEXTS[1]), Node("1", TEXTS[1]), Node("2", TEXTS[2])]
    write_index(index_of(nodes), postgres, "works", sentences=True)
    retriever = Retriever(open_index(postgres, "works", embedding=MODEL), LinearRAG(threshold=0), backfill=False)
    for metadata in ({}, {"year": 1}):
        update_index(postgres, "works", upsert=[Node("0", TEXTS[1], metadata=metadata)], embedding=MODEL)
        paths = {hit.path.text for hit in retriever.retrieve("Who is Ada Holm?")}
        assert paths == {"0", "1", '0 -["Otto Veld"]- 2'}


def test_sentences_come_and_go_with_the_index_that_is_written(postgres):
    index = GraphIndex.from_nodes(NODES, [], embedding=Recorder(), metric="cosine")
    write_index(index, postgres, "works")
    with pytest.raises(
        InvalidArgumentError, match=r"LinearRAG cannot run .* which PostgreSQL has after write_index\(sentences=True\)"
    ):
        Retriever(open_index(postgres, "works", embedding=index.embedding), LinearRAG())
    with pytest.raises(InvalidArgumentError, match="has no sentences; write the index with sentences=True"):
        PostgresSentences(PostgresCorpus(postgres, "works"))
    write_index(index, postgres, "works", sentences=True)
    whole = stored(postgres, "works")
    assert [len(part) for part in whole] == [3, 5, 1]
    assert read_index(postgres, "works", embedding=index.embedding).graph.contents() == TEXTS
    # A graph that is written by texts keeps them.
    other = GraphIndex.from_nodes([*NODES, Node("4", "Nils met Ada Holm.")], [], embedding=index.embedding, metric="cosine")

    def vectors(texts):
        return GraphIndex.from_texts(texts, embedding=index.embedding, metric="cosine").dense.vectors

    write_graph(other.graph, postgres, "works", vectors=vectors, embedding_name="recorder")
    write_index(other, postgres, "whole", sentences=True)
    assert stored(postgres, "works") == stored(postgres, "whole")
    # Of another model, all are made anew.
    model = Recorder(name="others")
    model._vector = lambda text: HashEmbedding._vector(model, text[::-1])
    reversed_index = GraphIndex.from_nodes(NODES, [], embedding=model, metric="cosine")
    write_index(reversed_index, postgres, "works", replace=True, sentences=True)
    assert stored(postgres, "works")[0].keys() == whole[0].keys() and stored(postgres, "works")[0] != whole[0]
    wide = GraphIndex.from_nodes(NODES, [], embedding=HashEmbedding(5), metric="cosine")
    write_index(wide, postgres, "works", replace=True, sentences=True)
    pair = [
        Retriever(each, LinearRAG(), backfill=False) for each in (open_index(postgres, "works", embedding=HashEmbedding(5)), wide)
    ]
    check_near(*(each.retrieve_batch(QUESTIONS) for each in pair), paths_too=False)
    before = stored(postgres, "works")
    write_index(wide, postgres, "works")
    assert stored(postgres, "works") == before
    # Of another model again, without being asked for; and an index without its model cannot follow the texts.
    write_graph(other.graph, postgres, "works", vectors=vectors, embedding_name="recorder", replace=True)
    assert stored(postgres, "works") == stored(postgres, "whole")
    write_index(GraphIndex.from_nodes(NODES, [], vectors=np.eye(4, 16), metric="cosine"), postgres, "works", replace=True)
    assert [len(part) for part in stored(postgres, "works")] == [0, 0, 0]


@pytest.mark.parametrize("system", [LinearRAG(), TriGraphSearch(), "vector"])
def test_what_an_index_lacked_for_a_while_is_read_when_it_is_there_again(postgres, system):
    index = index_of(NODES)
    write_index(index, postgres, "works", sentences=True)
    retriever = Retriever(open_index(postgres, "works", embedding=MODEL), system, k=2)
    hits = retriever.retrieve("Who is Ada Holm?")
    write_index(GraphIndex.from_nodes(NODES, []), postgres, "works", replace=True)
    lacking = "This index has no vectors" if system == "vector" else "cannot run .* sentences and .* names .*sentences=True"
    for _ in range(2):
        with pytest.raises((InvalidArgumentError, MissingSignalError), match=lacking):
            retriever.retrieve("Who is Ada Holm?")
    write_index(index, postgres, "works", replace=True, sentences=True)
    assert [(hit.id, hit.score) for hit in retriever.retrieve("Who is Ada Holm?")] == [(hit.id, hit.score) for hit in hits]


def test_names_that_an_extractor_of_the_user_finds(postgres):
    def find(text):
        return [word.strip(".,") for word in text.split() if word.strip(".,") in ("loom", "mill", "film", "Ada")]

    index = GraphIndex.from_nodes(NODES, [], embedding=MODEL, metric="cosine")
    write_index(index, postgres, "works", sentences=find)
    assert sorted(stored(postgres, "works")[0]) == ["ada", "film", "loom", "mill"]
    ask = [
        Retriever(each, LinearRAG(extractor=find), k=4, backfill=False)
        for each in (open_index(postgres, "works", embedding=MODEL), index)
    ]
    check_near(*([each.retrieve("the film of Ada")] for each in ask), paths_too=False)
    before = stored(postgres, "works")
    for change in (
        lambda: update_index(postgres, "works", upsert=[Node("4", "A mill.")], embedding=MODEL),
        lambda: write_graph(index.graph, postgres, "works", vectors=lambda texts: index.dense.vectors[: len(texts)], replace=False),
    ):
        with pytest.raises(
            InvalidArgumentError, match="has names that an extractor of yours found, and new texts .* pass the extractor as"
        ):
            change()
    assert stored(postgres, "works") == before
    update_index(postgres, "works", upsert=[Node("4", "Ada has a mill.")], embedding=MODEL, sentences=find)
    assert ("4", "mill", 1) in stored(postgres, "works")[1]
    update_index(postgres, "works", delete=["4"])
    update_index(postgres, "works", sentences=True, embedding=MODEL)
    assert sorted(stored(postgres, "works")[0]) == ["ada holm", "lund", "otto veld"]


def test_what_cannot_be_meant_is_refused_and_nothing_is_written(postgres):
    given = GraphIndex.from_nodes(NODES, [], vectors=np.eye(4), metric="cosine")
    words = GraphIndex.from_nodes(NODES, [])
    for index in (given, words):
        with pytest.raises(MissingSignalError, match="Sentences and names are embedded by the model of the nodes; build"):
            write_index(index, postgres, "works", sentences=True)
    write_index(index_of(NODES), postgres, "none", sentences=None)
    assert [len(part) for part in stored(postgres, "none")] == [0, 0, 0]
    with pytest.raises(InvalidArgumentError, match="sentences is 7; expected an object with a method names"):
        write_index(index_of(NODES), postgres, "works", sentences=7)
    with pytest.raises(InvalidArgumentError, match="a name of the extractor is not valid Unicode"):
        write_index(index_of(NODES), postgres, "works", sentences=lambda text: [f"{text}\ud800"])
    update_index(postgres, "works", upsert=NODES)
    with pytest.raises(MissingSignalError, match="Sentences and names need a model to have vectors; pass embedding= too"):
        update_index(postgres, "works", sentences=True)
    with pytest.raises(MissingSignalError, match=r"has no vectors of nodes, and sentences and names .* replace=True\)"):
        update_index(postgres, "works", sentences=True, embedding=MODEL)
    update_index(postgres, "plain", upsert=[Node("0", TEXTS[1], embedding=np.ones(8))])
    with pytest.raises(
        DimensionMismatchError, match="of names and sentences of width 8, and embedding= makes some of width 16; pass"
    ):
        update_index(postgres, "plain", sentences=True, embedding=MODEL)
    assert [len(part) for name in ("works", "plain") for part in stored(postgres, name)] == [0] * 6


# -- the store --------------------------------------------------------------------------------------------------------

HOSTILE = [
    "Ada'); DROP TABLE x; --",
    'O"Neil\\',
    "Å\x00se\x01",
    "Lu{nodes}nd %(ids)s",
    "Ζεύς",
    "𝔄da",
    *("Na" + "a" * 3000 + end for end in ("", "b")),
]


def test_hostile_names_are_found_as_they_are(postgres):
    """Names are what a function finds: the lines of a text."""
    texts = [f"{first}\n{second}" for first, second in zip(HOSTILE, HOSTILE[1:] + HOSTILE[:1], strict=True)]
    nodes = [Node(str(row), text) for row, text in enumerate(texts)]
    index = GraphIndex.from_nodes(nodes, [], embedding=MODEL, metric="cosine")
    write_index(index, postgres, "works", sentences=str.splitlines)
    system = LinearRAG(extractor=str.splitlines, threshold=0.0)
    pair = [Retriever(each, system, k=8, backfill=False) for each in (open_index(postgres, "works", embedding=MODEL), index)]
    for name in [*HOSTILE, "nobody"]:
        there, here = (each.retrieve("who?", entities=[name]) for each in pair)
        check_near([there], [here], paths_too=False)
    expected = {name for text in texts for name in passage_names(text, "", text.splitlines()).names}
    assert len(stored(postgres, "works")[0]) == len(expected) == len(HOSTILE)


def test_of_names_that_are_equally_near_the_first_in_the_texts_counts(postgres):
    """The order of words changes vectors by rounding alone; the numbers of names follow the order in which they were written."""
    model = HashEmbedding(16)
    model._vector = lambda text: [*HashEmbedding._vector(model, text), 6e-4 if text == "Holm Ada" else 0.0]
    nodes = [Node("0", "Holm Ada left.", metadata={"at": "lund"}), Node("1", "Ada Holm sang."), Node("2", "Holm Ada sat.")]
    index = GraphIndex.from_nodes(nodes, [], embedding=model, metric="cosine")
    write_index(index, postgres, "works", sentences=True)
    for scope in ({}, {"at": {"$exists": False}}):
        there, here = (
            Retriever(each, LinearRAG(passage_weight=0), k=3, backfill=False).retrieve("?", entities=["Ada, Holm"], scope=scope)
            for each in (open_index(postgres, "works", embedding=model), index)
        )
        check_near([there], [here], paths_too=False)
        assert {hit.id for hit in there} == ({"1"} if scope else {"0", "2"})


def test_a_sentence_without_a_vector_has_the_cosine_0(postgres):
    def marks(text):
        return [mark for mark in "§¶" if mark in text]

    index = index_of([Node("0", "§ met ¶ in Lund."), Node("1", "§ ¶."), Node("2", "¶ left.")])
    write_index(index, postgres, "works", sentences=marks)
    there, here = (
        Retriever(each, LinearRAG(extractor=marks), backfill=False).retrieve("Who met in Lund?", entities=["§"])
        for each in (open_index(postgres, "works", embedding=MODEL), index)
    )
    check_near([there], [here])


def test_a_name_is_spelled_as_by_the_passage_that_was_written_first(postgres):
    index = index_of([Node("0", "In LUND, Ada left."), Node("1", "Lund and ADA.")])
    write_index(index, postgres, "works", sentences=True)
    update_index(postgres, "works", upsert=[Node("2", "In lUND, aDA sat.")], embedding=MODEL)
    store = PostgresSentences(PostgresCorpus(postgres, "works"))
    numbers, _ = store.numbers(["lund", "ada"], ())
    assert list(store.spellings([numbers["lund"], numbers["ada"]]).values()) == ["LUND", "Ada"]


def test_two_indexes_and_a_scope_do_not_see_each_other(postgres):
    other = [Node("0", "Otto Veld met Nils."), Node("1", "Nils left Åse.")]
    write_index(GraphIndex.from_nodes(NODES, [], embedding=MODEL, metric="cosine"), postgres, "works", sentences=True)
    write_index(GraphIndex.from_nodes(other, [], embedding=MODEL, metric="cosine"), postgres, "other", sentences=True)
    first, second = (PostgresSentences(PostgresCorpus(postgres, name)) for name in ("works", "other"))
    assert (first.numbers(["nils"], ()), second.numbers(["nils"], ())[1]) == (({}, True), True)
    (number,) = first.numbers(["otto veld"], ())[0].values()
    scoped = first.within(["2"])
    assert scoped.numbers(["otto veld", "ada holm"], ()) == ({"otto veld": number}, True)
    contents, containers = scoped.mentions([0], [number], ())
    assert (contents[0].tolist(), containers[number].tolist()) == ([[number, 2]], [[0, 1]])
    assert scoped.sentences([(np.ones(16, np.float32), [number])], ()) == [[]]
    assert first.within(["3"]).numbers(["otto veld"], ()) == first.within([]).numbers(["otto veld"], ()) == ({}, False)
    assert first.within(["3"]).nearest(np.ones((1, 16), np.float32), ()) == [(-1, 0.0)]
    assert first.mentions([], [number], ["passage"]) == ({}, {})
    assert first.spellings([number]) == {number: "Otto Veld"}
