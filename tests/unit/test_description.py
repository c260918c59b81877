"""What an index says of itself, and when it warns."""

import json
import logging
from itertools import pairwise

import pytest
import torch

from graph_retrievers import GraphIndex, minilm
from graph_retrievers.commands.cli import main
from graph_retrievers.construction import Metadata
from graph_retrievers.construction.edges import TitleMentions
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.description import describe
from graph_retrievers.graph.names import NAMED_BY_TEXTS
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.operators import BM25Search, Pipeline
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.traits import holds_passages, names_identify
from tests.helpers import HashEmbedding

LONG = "word " * 30
FIRST_NAMES = ("Ada", "Otto", "Cleo", "Ines", "Emil", "Nora", "Hugo", "Vera", "Paul", "Lena", "Kurt", "Rosa")
SURNAMES = ("Holm", "Veld", "Marsh", "Stone", "Quist", "Lorne", "Brandt", "Pike", "Tarn", "Sayer", "Rook", "Vance")


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


class TestDescribe:
    def test_the_numbers_of_a_small_graph(self):
        nodes = [
            Node("hub", "one two", "Hub", "thing"),
            *(Node(f"n{i}", "one " * i) for i in range(1, 6)),
            Node("x", "y", "", "thing"),
        ]
        edges = [("hub", f"n{i}", "has") for i in range(1, 5)] + [("n1", "hub", "of"), ("n5", "n4", "")]
        found = describe(CorpusGraph.from_nodes(nodes, edges), max_tokens=4)
        assert (found.nodes, found.types, found.untitled) == (7, {"thing": 2, "": 5}, 6)
        assert found.edges == {"": 1, "has": 4, "of": 1}
        assert found.degree == (0, 1, 1, 1, 4) and found.hubs[:2] == [("hub", "Hub", 4), ("n4", "", 2)]
        assert (found.isolated, found.components, found.largest_component) == (1, 2, 6)
        # "Hub. one two" has four tokens.
        assert found.tokens == (1, 1, 3, 4, 5) and (found.readable_tokens, found.truncated) == (4, 1)
        assert "truncated" in found.to_dict() and json.dumps(found.to_dict())

    def test_hubs_are_called_as_on_paths(self):
        ids = ["0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "plain"]
        texts = ["## The looms of Lyon\nThey wove.", "A card.", "An engine."]
        found = describe(CorpusGraph(ids, texts, edges=[(ids[0], ids[1], "")]))
        assert found.hubs == [(ids[0], "The looms of Lyon", 1), (ids[1], "A card.", 1), ("plain", "", 0)]
        assert str(found).endswith("hubs        The looms of Lyon (1), A card. (1), plain (0)") and found.untitled == 3

    def test_components_of_a_long_chain_and_of_rings(self):
        ids = [str(n) for n in range(500)]
        edges = [(str((n * 7) % 300), str(((n + 1) * 7) % 300)) for n in range(299)] + [
            (str(n), str(n + 1)) for n in range(300, 400)
        ]
        found = describe(CorpusGraph(ids, [""] * 500, edges=edges))
        assert (found.components, found.largest_component, found.isolated) == (2 + 99, 300, 99)

    def test_an_index_tells_its_signals_and_what_its_model_reads(self, capsys, tmp_path):
        model = HashEmbedding()
        model.max_seq_length = 10
        texts = ["word " * 11] * 3 + ["word"] * 17
        index = GraphIndex.from_texts(texts, embedding=model, edges=[("0", "1")])
        found = index.describe()
        assert (found.signals, found.readable_tokens, found.truncated) == (("dense", "bm25"), 10, 3)
        assert [advice[:30] for advice in found.advice] == ["90% of the nodes have no edge,", "3 texts are longer than the 10"]
        index.save(tmp_path / "index")
        assert main(["inspect", str(tmp_path / "index")]) == 0
        out = capsys.readouterr().out
        assert "nodes       20; without a title: 20" in out and "advice: 90% of the nodes have no edge" in out
        assert main(["inspect", str(tmp_path / "index"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["isolated"] == 18


class TestWarnings:
    def test_nothing_is_said_of_an_ordinary_index_or_one_that_is_not_told_of_edges(self, caplog):
        GraphIndex.from_texts(["a", "b", "c"], edges=[("0", "1"), ("1", "2")])
        GraphIndex.from_texts(["a", "b"])
        GraphIndex.from_documents([Node("a", "a"), Node("b", "b")])
        GraphIndex.from_nodes([Node("a", "a"), Node("b", "b")])
        GraphIndex.from_texts(["a", "b", "c"], edges=[])
        GraphIndex.from_documents([Node("a", "a")], edges=())
        GraphIndex.from_nodes([Node("a", "a")], [])
        assert warnings(caplog) == []

    @pytest.mark.parametrize("edges", [None, [], TitleMentions()])
    def test_what_needs_edges_says_once_that_there_are_none_and_what_to_do(self, edges, caplog):
        index = GraphIndex.from_texts(["a", "b"], titles=["Loom", "Card"], edges=edges, vectors=torch.eye(2))
        assert len(warnings(caplog)) == bool(edges), "some were to be found"
        Retriever(index, "ppr")
        (message,) = warnings(caplog)
        tried = ", as TitleMentions found none" if edges else ""
        assert message.startswith(f"There are no edges{tried}, so that walks along edges find little more than search does; build")
        assert all(way in message for way in ("edges=[...]", "DocumentStructure()", "Links()"))
        assert ("TitleMentions()" in message) == (not edges), "what was tried is not advised"
        Retriever(GraphIndex(index.graph, {"dense": DenseIndex(torch.eye(2))}), "ppr")
        assert len(warnings(caplog)) == 1, "said already"

    def test_retrievers_that_walk_say_it_and_those_that_search_do_not(self, caplog):
        graph = CorpusGraph(["a", "b"], ["a loom", "a card"])
        vectors = torch.eye(2)
        for name in ("vector", "bm25", "hybrid", "re2"):
            Retriever(GraphIndex.from_graph(graph, vectors=vectors), name)
        Retriever(GraphIndex.from_graph(graph), Pipeline(BM25Search(), DocumentGraphRerank()))
        assert not [message for message in warnings(caplog) if "edges" in message]
        for name in ("ppr", "gar", "walk-fusion", "spreading"):
            caplog.clear()
            Retriever(GraphIndex.from_graph(CorpusGraph(graph.ids, graph.texts), vectors=vectors), name)
            assert len([message for message in warnings(caplog) if message.startswith("There are no edges")]) == 1

    def test_most_nodes_without_edges(self, caplog):
        GraphIndex.from_texts(["a"] * 19, edges=[("0", "1")])
        assert warnings(caplog) == [], "too few to say"
        GraphIndex.from_texts(["a"] * 20, edges=[(str(n), str(n + 1)) for n in range(9)])
        assert warnings(caplog) == [], "half is not most"
        GraphIndex.from_texts(["a"] * 20, edges=[(str(n), str(n + 1)) for n in range(8)])
        (message,) = warnings(caplog)
        assert message.startswith("55% of the nodes have no edge, so no walk reaches them; add another source of edges")

    def test_edges_that_explode(self, caplog):
        count = 120
        metadatas = [{"site": "x"}] * count
        GraphIndex.from_texts([str(n) for n in range(count)], metadatas=metadatas, edges=Metadata("site", "site"))
        (message,) = warnings(caplog)
        assert "There are 60 edges for each node" in message

    def test_texts_that_the_model_does_not_read_to_the_end(self, caplog):
        model = HashEmbedding()
        model.max_length = 20
        GraphIndex.from_texts([LONG] * 3, embedding=model, edges=[("0", "1"), ("1", "2")])
        (message,) = warnings(caplog)
        assert "3 texts are longer than the 20 tokens that the embedding model reads" in message

    def test_another_model_than_the_one_that_built_the_index(self, caplog, tmp_path):
        class Other(HashEmbedding):
            name = "other"

        GraphIndex.from_texts(["a", "b"], embedding=HashEmbedding(), edges=[]).save(tmp_path / "index")
        GraphIndex.load(tmp_path / "index", embedding=HashEmbedding())
        GraphIndex.load(tmp_path / "index")
        assert warnings(caplog) == []
        GraphIndex.load(tmp_path / "index", embedding=Other())
        (message,) = warnings(caplog)
        assert "and questions are embedded by other" in message

    def test_the_owner_of_a_model_does_not_make_it_another(self, caplog, tmp_path):
        model = HashEmbedding()
        model.name = "sentence-transformers/mini"
        GraphIndex.from_texts(["a", "b"], embedding=model, edges=[]).save(tmp_path / "index")
        model = HashEmbedding()
        model.name = "mini"
        GraphIndex.load(tmp_path / "index", embedding=model)
        assert warnings(caplog) == []


def test_components_are_found_quickly_whatever_the_order():
    order = torch.randperm(20_000, generator=torch.Generator().manual_seed(0)).tolist()
    ids = [str(n) for n in range(20_000)]
    graph = CorpusGraph(ids, [""] * len(ids), edges=[(ids[a], ids[b]) for a, b in pairwise(order)])
    found = describe(graph)
    # Well under a second; one node a round would take minutes.
    assert (found.components, found.largest_component) == (1, 20_000)


def test_line_breaks_in_titles_do_not_make_lines():
    graph = CorpusGraph(["a", "b"], ["", ""], titles=["A\nadvice: x", "B"], edges=[("a", "b", "r\ns")])
    assert "\nadvice: x" not in str(describe(graph)) and "1 r s" in str(describe(graph))


class TestTraits:
    @pytest.mark.parametrize(("counts", "passages"), [((19, 19, 20), False), ((20, 20, 5), True), ((20, 5), False)])
    def test_passages_have_twenty_words(self, counts, passages):
        texts = ["word " * count for count in counts]
        assert holds_passages(CorpusGraph([str(n) for n in range(len(texts))], texts)) is passages

    @pytest.mark.parametrize(("letters", "passages"), [(36, False), (38, True)])
    def test_two_letters_of_scripts_without_spaces_count_as_a_word(self, letters, passages):
        assert holds_passages(CorpusGraph(["a"], ["\u6771" * letters])) is passages
        assert not holds_passages(CorpusGraph(["a"], ["\u00e9" * letters])), "a long word is one"

    @pytest.mark.parametrize(("kinds", "passages"), [(["passage"] * 3, True), (["film", "place", "film"], False)])
    def test_texts_in_which_names_were_found_are_passages_however_short(self, kinds, passages):
        texts, named = ["By Ada Holm.", "Of Ada Holm.", "Rome.", ""], [{}, {}, {}, {NAMED_BY_TEXTS: True}]
        assert holds_passages(CorpusGraph(list("abcd"), texts, types=[*kinds, "entity"], metadata=named)) is passages
        assert not holds_passages(CorpusGraph(list("abcd"), texts, types=[*kinds, "entity"]))

    def test_titles_of_things_identify_and_headings_do_not(self):
        things = [f"thing{n}" for n in range(50)]
        index = GraphIndex.from_texts([f"{LONG} tables and notes"] * 50, titles=things)
        assert names_identify(index)
        index = GraphIndex.from_texts([f"{LONG} tables and notes"] * 50, titles=["Tables", "Notes"] * 25)
        assert not names_identify(index)
        # One rare word is enough.
        index = GraphIndex.from_texts([f"{LONG} tables and notes"] * 50, titles=[f"Tables of thing{n}" for n in range(50)])
        assert names_identify(index)

    def test_a_title_that_many_chunks_share_does_not_identify_them(self):
        index = GraphIndex.from_texts([LONG] * 40, titles=["Loom"] * 20 + ["Card"] * 20)
        assert not names_identify(index)
        index = GraphIndex.from_texts([LONG] * 40, titles=[f"Thing{n // 4}" for n in range(40)])
        assert names_identify(index)

    def test_names_made_of_common_words_identify_where_texts_use_them_as_names(self):
        names = [f"{first} {last}" for first in FIRST_NAMES for last in SURNAMES]
        met = [f"{name} met {other} in spring. {LONG}" for name, other in zip(names, names[1:] + names[:1], strict=True)]
        assert names_identify(GraphIndex.from_texts(met, titles=names))
        # Headings of as common words, which no text uses, and titles of one word, which every text opens with.
        assert not names_identify(GraphIndex.from_texts([LONG] * len(names), titles=names))
        surnames = [name.split()[1] for name in names]
        assert not names_identify(GraphIndex.from_texts([f"{name} was born. {LONG}" for name in surnames], titles=surnames))

    def test_nodes_without_titles(self):
        assert not names_identify(GraphIndex.from_texts([LONG] * 3)), "chunks without titles have no names"
        assert names_identify(GraphIndex.from_graph(CorpusGraph(["Ada", "Loom"], ["", ""]))), "entities are named by their ids"
        assert names_identify(GraphIndex.from_texts([LONG] * 3, bm25=False)), "without counts of words"

    def test_names_without_words_do_not_identify_and_indexes_of_one_graph_are_told_apart(self):
        assert not names_identify(GraphIndex.from_texts([LONG] * 3, titles=["X", "The And", "?"]))
        graph = CorpusGraph([str(n) for n in range(40)], [f"{LONG} tables"] * 40, titles=["Tables"] * 40)
        common, rare = GraphIndex.from_graph(graph), GraphIndex(graph, {"bm25": BM25(["other words"] * 40)})
        assert [names_identify(index) for index in (common, rare, common)] == [False, True, False]

    def test_periodic_graphs_are_judged_by_all_their_nodes(self):
        texts = [("word " * 25 if n % 3 == 0 else "short") for n in range(6000)]
        assert not holds_passages(CorpusGraph([str(n) for n in range(6000)], texts))
        assert not holds_passages(CorpusGraph([str(n) for n in range(6000)], texts[1:] + texts[:1]))

    def test_a_tie_is_no_majority(self):
        titles = ["Tables"] * 20 + [f"thing{n}" for n in range(20)]
        assert not names_identify(GraphIndex.from_texts([f"{LONG} tables"] * 40, titles=titles))


def test_a_model_in_another_number_format_is_named_with_it():
    model = HashEmbedding(8)
    model.name, model.precision = "mini", "bfloat16"
    assert "embedding: mini in bfloat16" in str(GraphIndex.from_texts(["a", "b"], embedding=model).describe())


def test_texts_that_nodes_repeat_are_counted():
    found = GraphIndex.from_texts(["a", "b", "a", "c", "c", "a"], titles=list("uvwxyz")).describe()
    assert found.repeated == 5 and "without a title: 0; with exactly the text of another: 5" in str(found)
    assert "text of another" not in str(GraphIndex.from_texts(["a", "b"]).describe())


def test_sources_of_edges_that_are_there_are_not_advised():
    edges = [("0", "1", "links"), ("0", "1", "next")]
    (advice,) = GraphIndex.from_texts([str(n) for n in range(20)], edges=edges).describe().advice
    assert advice.endswith("add another source of edges: TitleMentions(), NearestNeighbors() or edges of your own.")


def test_a_description_as_a_text():
    nodes = [Node("a", "one two three", "Hub\n1", "thing"), *(Node(name, "one", "", "") for name in "bcdefg")]
    edges = [("a", name, "has  it") for name in "bcde"] + [("b", "c")]
    found = describe(CorpusGraph.from_nodes(nodes, edges), 2, ("dense", "bm25"), "mini")
    assert str(found).split("\n") == [
        "nodes       7 (1 thing, 6 unnamed); without a title: 6; with exactly the text of another: 6",
        "edges       5 (4 has it, 1 unnamed)",
        "degree      0 to 4, median 1, quartiles 0 and 2; isolated: 2 (29%)",
        "components  3, the largest with 5 nodes",
        "tokens      1 to 6, median 1, quartiles 1 and 1, about; more than the 2 read: 1",
        "signals     dense, bm25; embedding: mini",
        "hubs        Hub 1 (4), b (2), c (2), d (1), e (1)",
        "advice: 1 texts are longer than the 2 tokens that the embedding model reads, and the rest of them is not searched by "
        "vector; split them into shorter ones.",
    ]


@pytest.mark.parametrize(
    ("count", "edges", "long", "advice"),
    [
        (20, 0, 0, ["There are no edges"]),
        (20, 4, 0, ["60% of the nodes have no edge"]),
        (20, 5, 0, []),
        (19, 1, 0, []),
        (10, 9, 1, []),
        (10, 9, 2, ["2 texts are longer than the 3 tokens"]),
        (2, 100, 0, []),
        (2, 101, 0, ["There are 50 edges for each node"]),
        (2, 110, 1, ["There are 55 edges for each node", "1 texts are longer"]),
    ],
)
def test_when_advice_is_given(count, edges, long, advice):
    texts = ["w w w w" if n < long else "w w w" for n in range(count)]
    ids = [str(n) for n in range(count)]
    made = [(ids[2 * n % count], ids[(2 * n + 1) % count], f"r{n}") for n in range(edges)]
    found = describe(CorpusGraph(ids, texts, edges=made), max_tokens=3)
    assert len(found.advice) == len(advice)
    assert all(line.startswith(start) for line, start in zip(found.advice, advice, strict=True))


def test_a_model_of_another_language_is_named():
    german = ["Der Webstuhl ist eine Maschine, die das Tuch webt.", "Die Karten sind aus Pappe und nicht aus Holz."]
    english = ["The loom is a machine that weaves the cloth.", "The cards are made of paper and not of wood."]
    for texts, embedding, advised in (
        (german, minilm(), True),
        (english, minilm(), False),
        (["!!!", "???"], minilm(), False),
        (german, HashEmbedding(), False),  # It does not say what it reads.
    ):
        advice = GraphIndex.from_texts(texts, embedding=embedding, edges=[("0", "1")]).describe().advice
        told = "The embedding model reads English, and these texts are German, so that vectors find little; choose a model that "
        assert list(advice) == [f"{told}reads them."] * advised


def test_tokens_are_those_of_the_model():
    class Letters(HashEmbedding):
        max_length = 20

        def count_tokens(self, texts):
            return [len(text) for text in texts]

    found = GraphIndex.from_texts(["Arbeitnehmerfreizügigkeit", "Amt"], embedding=Letters(), edges=[("0", "1")]).describe()
    assert found.truncated == 1 and sum(found.tokens[::4]) == pytest.approx(28, abs=1)

    class Unread(Letters):
        def count_tokens(self, texts):
            raise OSError("The weights are gone.")

    assert GraphIndex.from_texts(["Arbeitnehmerfreizügigkeit"], embedding=Unread()).describe().truncated == 0


def test_tokens_of_many_texts_are_estimated_from_a_sample():
    class Twice(HashEmbedding):
        asked = 0

        def count_tokens(self, texts):
            Twice.asked += len(texts)
            return [2 * estimate_tokens(text) for text in texts]

    graph = CorpusGraph([str(n) for n in range(2_000)], ["loom " * (1 + n % 7) for n in range(2_000)])
    found = describe(graph, model=Twice(3))
    assert 400 <= Twice.asked <= 1_000
    assert found.tokens == pytest.approx([2 * count for count in describe(graph).tokens], abs=1)
