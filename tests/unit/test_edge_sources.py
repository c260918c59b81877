"""Where edges come from, each source against what a reader would draw by hand or a literal search finds."""

import logging
from operator import attrgetter

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.construction import (
    Links,
    Metadata,
    NearestNeighbors,
    Relationships,
    TitleMentions,
    Triples,
    build_edges,
    from_networkx,
    to_networkx,
)
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.edges import needs_vectors
from graph_retrievers.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingSignalError,
    NothingToReadError,
    UnknownNodeError,
)
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.corpus_graph import Edge
from tests.helpers import as_edges


def nodes_of(**metadata):
    """Nodes by id, each with the metadata given for it."""
    return [Node(name, f"text of {name}", metadata=fields) for name, fields in metadata.items()]


def pairs(edges):
    return [edge[:2] for edge in edges]


PAPERS = nodes_of(a={"cites": ["b", "c", "b", "x"]}, b={"cites": "c"}, c={"cites": []}, d={"other": 1})


class TestWhatIsMeant:
    def test_explicit_edges_stay_as_given(self):
        edges = [("a", "b"), ["b", "c", "sees"], ("a", "b"), ("c", "c")]
        assert build_edges(PAPERS, edges) == [("a", "b", ""), ("b", "c", "sees"), ("a", "b", ""), ("c", "c", "")]

    def test_a_pair_of_fields_links_what_it_names(self):
        assert build_edges(PAPERS, [("cites", "$id")]) == [("a", "b", "cites"), ("a", "c", "cites"), ("b", "c", "cites")]

    def test_only_what_means_the_same_is_one_value(self):
        held = {"a": True, "b": 1, "c": 1.0, "d": "1", "e": [True, "true"], "f": False, "g": 0}
        nodes = nodes_of(**{name: {"flag": value} for name, value in held.items()})
        assert build_edges(nodes, Metadata("flag", "flag")) == [("a", "e", "flag"), ("b", "c", "flag")]

    def test_all_kinds_mix_in_one_list_and_keep_their_order(self):
        graph = networkx.Graph([("c", "d")])
        edges = [
            ("d", "a", "first"),
            ("cites", "$id"),
            lambda node: ["d"] if node.id == "a" else None,
            graph,
            Triples([("a", "r", "d")]),
        ]
        assert build_edges(PAPERS, edges) == [
            ("d", "a", "first"),
            ("a", "b", "cites"),
            ("a", "c", "cites"),
            ("b", "c", "cites"),
            ("a", "d", ""),
            Edge("c", "d"),
            ("a", "d", "r"),
        ]

    @pytest.mark.parametrize("nothing", [None, [], (), iter([])])
    def test_nothing_is_no_edges(self, nothing):
        assert build_edges(PAPERS, nothing) == []

    @pytest.mark.parametrize("single", [("cites", "$id"), Metadata("cites"), lambda node: node.metadata.get("cites") and ["c"]])
    def test_one_source_needs_no_list(self, single):
        assert ("b", "c") in pairs(build_edges(PAPERS, single))

    def test_a_pair_that_is_edge_and_fields_at_once_is_refused(self):
        nodes = nodes_of(x={"x": "y", "y": "x"}, y={})
        with pytest.raises(
            InvalidArgumentError, match=r"names two nodes and two fields\. Write \('x', 'y', ''\) for the edge, Metadata"
        ):
            build_edges(nodes, [("x", "y")])
        assert build_edges(nodes, [("x", "y", "")]) == [("x", "y", "")]
        assert build_edges(nodes, [Metadata("x", "$id")]) == [("x", "y", "x")]

    def test_a_node_named_like_a_field_does_not_hide_the_field(self):
        nodes = nodes_of(cites={"cites": "b"}, b={})
        assert build_edges(nodes, [("cites", "$id")]) == [("cites", "b", "cites")]

    @pytest.mark.parametrize(
        ("edges", "error", "message"),
        [
            ([("a", "nowhere")], UnknownNodeError, r"Edge 0, \('a', 'nowhere'\), names 'nowhere'"),
            (
                [("a", "b"), ("p", "q")],
                UnknownNodeError,
                r"Edge 1, \('p', 'q'\), names 'p'.*no node has both as metadata fields either",
            ),
            ([("a", "b", "r"), ("z", "b", "r")], UnknownNodeError, "Edge 1.*names 'z'"),
            ([("a", "cites", "b")], UnknownNodeError, r"wrap the list in Triples"),
            ([("citse", "$id")], InvalidArgumentError, r"'\$id' is a field, but no node has a metadata field 'citse'"),
            ([("cites", "doi")], InvalidArgumentError, "'cites' is a field, but no node has a metadata field 'doi'"),
            (
                [Metadata("citse")],
                InvalidArgumentError,
                "No node has the metadata field 'citse'.*the metadata fields are: cites, other",
            ),
            ([("other", "$it")], InvalidArgumentError, r"no node has a metadata field '\$it'"),
            ([Links], InvalidArgumentError, r"is the class Links; call it"),
            ([[("a", "b"), ("b", "c")]], InvalidArgumentError, r"Unpack a list inside the list with a star"),
            ([("a", 3)], InvalidArgumentError, r"Item 0 of edges is \('a', 3\); expected an Edge, \(source id"),
            ([("a", "b", "c", "d")], InvalidArgumentError, r"Item 0 of edges"),
            (["a", "b"], InvalidArgumentError, "Item 0 of edges is 'a'"),
            ("links", InvalidArgumentError, "edges is 'links'; expected a list"),
            ({"a": "b"}, InvalidArgumentError, "expected a list"),
            (7, InvalidArgumentError, "edges is 7"),
            ([lambda node: "b"], InvalidArgumentError, "returned 'b' for 'a'; expected a list"),
            ([lambda node: [1]], InvalidArgumentError, "returned 1 for 'a'; expected a node id or an edge"),
            ([networkx.Graph([("a", "nowhere")])], UnknownNodeError, "names 'nowhere'"),
            ([Triples([("a", "r", "nowhere")])], UnknownNodeError, r"Triple 0 .* names 'nowhere', which no node has as \$id"),
            ([Relationships()], InvalidArgumentError, "none of the documents has relationships"),
            ([TitleMentions()], InvalidArgumentError, "No node has a title"),
            ([Links()], InvalidArgumentError, "No node has the metadata field 'url' or 'source'"),
            ([NearestNeighbors()], MissingSignalError, "need vectors"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, edges, error, message):
        with pytest.raises(error, match=message):
            build_edges(PAPERS, edges)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Metadata("$what"),
            lambda: Metadata(""),
            lambda: Metadata("a", limit=0),
            lambda: NearestNeighbors(0),
            lambda: NearestNeighbors(min_similarity=2),
            lambda: TitleMentions(0),
            lambda: Triples([("a", "b")]),
        ],
    )
    def test_settings_out_of_range(self, make):
        with pytest.raises(InvalidArgumentError):
            make()

    def test_absent_targets_are_counted_in_the_log(self, caplog):
        with caplog.at_level(logging.INFO, "graph_retrievers"):
            build_edges(PAPERS, [("cites", "$id")])
            build_edges(nodes_of(a={"cites": ["x", "y"]}), [("cites", "$id")])
        assert [(r.levelname, r.getMessage().rpartition("): ")[2]) for r in caplog.records] == [
            ("INFO", "3 edges; skipped references to nodes outside the corpus: 1."),
            ("WARNING", "0 edges; skipped references to nodes outside the corpus: 2."),
        ]

    def test_a_callable_may_give_edges_and_absent_ids(self):
        def neighbours(node):
            return [("b", node.id), ("b", node.id, "r"), "a", "absent", "a"]

        assert build_edges(PAPERS[:2], neighbours) == [("b", "a", ""), ("b", "a", "r")]

    def test_vectors_are_asked_for_only_where_they_are_read(self):
        assert needs_vectors([("a", "b"), NearestNeighbors()]) and not needs_vectors([("a", "b"), Links()])


class TestMetadata:
    def test_shared_values_link_each_pair_once(self):
        nodes = nodes_of(a={"author": ["X", "Y"]}, b={"author": "Y"}, c={"author": ["X", "Y"]}, d={})
        assert build_edges(nodes, [("author", "author")]) == [("a", "c", "author"), ("a", "b", "author"), ("b", "c", "author")]

    def test_nested_fields_and_lists_of_mappings(self):
        nodes = nodes_of(a={"refs": [{"to": "b"}, {"to": ["c"]}, {}]}, b={"refs": {"to": "c"}}, c={"refs.to": "a"})
        assert pairs(build_edges(nodes, [("refs.to", "$id")])) == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a")]

    def test_own_fields(self):
        nodes = [Node("a", "", "Alpha", metadata={"see": ["Beta", "t"]}), Node("b", "", "Beta", "t")]
        assert build_edges(nodes, Metadata("see", "$title", relation="sees")) == [("a", "b", "sees")]
        assert build_edges(nodes, Metadata("see", "$type")) == [("a", "b", "see")]
        assert build_edges(nodes, Metadata("$title", "see")) == [("b", "a", "$title")]

    def test_numbers_match_ids(self):
        nodes = nodes_of(**{"7": {"next": 8}, "8": {"next": None}})
        assert pairs(build_edges(nodes, [("next", "$id")])) == [("7", "8")]

    def test_values_that_cannot_be_compared(self):
        with pytest.raises(InvalidArgumentError, match="Field 'cites' of 'a' holds a dict"):
            build_edges(nodes_of(a={"cites": [{"id": "a"}]}), [("cites", "$id")])

    def test_a_value_that_too_many_hold_links_nothing_and_says_so(self, caplog):
        nodes = nodes_of(**{str(i): {"lang": "en", "topic": i // 2} for i in range(6)})
        with caplog.at_level(logging.WARNING, "graph_retrievers"):
            assert build_edges(nodes, Metadata("lang", "lang", limit=5)) == []
        assert "skipped 1 values that more than 5 nodes have" in caplog.text
        assert len(build_edges(nodes, Metadata("lang", "lang", limit=6))) == 15
        assert pairs(build_edges(nodes, Metadata("topic", "topic", limit=2))) == [("0", "1"), ("2", "3"), ("4", "5")]

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(st.lists(st.integers(0, 5), max_size=3), st.lists(st.integers(0, 5), max_size=3)), min_size=1, max_size=8
        )
    )
    def test_any_two_fields_against_two_loops(self, fields):
        nodes = [Node(f"n{i}", "", metadata={"out": out, "into": into}) for i, (out, into) in enumerate(fields)]
        literal = {(a.id, b.id) for a in nodes for b in nodes if a is not b and set(a.metadata["out"]) & set(b.metadata["into"])}
        edges = build_edges(nodes, [("out", "into")])
        assert set(pairs(edges)) == literal and len(edges) == len(literal)


class TestTriples:
    def test_by_id_and_by_title(self):
        nodes = [Node("1", "", "Tom"), Node("2", "", "Film"), Node("3", "", "Film")]
        assert build_edges(nodes, Triples([("1", "acts in", "2")])) == [("1", "2", "acts in")]
        by_title = Triples([("Tom", "acts in", "Film")], key="$title")
        assert build_edges(nodes, by_title) == [("1", "2", "acts in"), ("1", "3", "acts in")]


class TestNearestNeighbors:
    @pytest.mark.parametrize("k", [1, 3, 50])
    def test_against_a_full_table(self, k, device):
        vectors = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
        nodes = [Node(str(i), "") for i in range(40)]
        cosine = torch.nn.functional.normalize(vectors, dim=1)
        cosine = cosine @ cosine.T
        literal = [
            (str(i), str(j), "similar")
            for i in range(40)
            for j in sorted((j for j in range(40) if j != i), key=lambda j: (-float(cosine[i, j]), j))[:k]
        ]
        assert build_edges(nodes, NearestNeighbors(k), vectors=vectors.to(device)) == literal

    def test_equal_vectors_go_to_the_lower_row_and_never_to_themselves(self):
        nodes = [Node(str(i), "") for i in range(5)]
        edges = build_edges(nodes, NearestNeighbors(2), vectors=[[1.0, 0.0]] * 5)
        assert pairs(edges) == [
            ("0", "1"),
            ("0", "2"),
            ("1", "0"),
            ("1", "2"),
            *((str(i), j) for i in (2, 3, 4) for j in ("0", "1")),
        ]

    def test_a_least_cosine_whatever_the_lengths(self):
        nodes = [Node(str(i), "") for i in range(3)]
        vectors = [[10.0, 0.0], [0.1, 0.05], [0.0, 3.0]]
        assert pairs(build_edges(nodes, NearestNeighbors(2, min_similarity=0.8), vectors=vectors)) == [("0", "1"), ("1", "0")]

    def test_vectors_that_do_not_fit(self):
        nodes = [Node(str(i), "") for i in range(3)]
        with pytest.raises(DimensionMismatchError):
            build_edges(nodes, NearestNeighbors(), vectors=[[1.0], [2.0]])
        with pytest.raises(InvalidVectorError):
            build_edges(nodes, NearestNeighbors(), vectors=[[1.0], [2.0], [float("nan")]])


class TestRelationships:
    def test_every_kind_of_llama_index_and_both_ends_once(self):
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

        def info(name):
            return RelatedNodeInfo(node_id=name)

        documents = [
            TextNode(id_="doc", text="", relationships={NodeRelationship.CHILD: [info("a"), info("b")]}),
            TextNode(
                id_="a",
                text="",
                relationships={
                    NodeRelationship.SOURCE: info("doc"),
                    NodeRelationship.PARENT: info("doc"),
                    NodeRelationship.NEXT: info("b"),
                },
            ),
            TextNode(id_="b", text="", relationships={NodeRelationship.PREVIOUS: info("a"), NodeRelationship.NEXT: info("absent")}),
        ]
        assert build_edges(to_nodes(documents), Relationships()) == [
            ("doc", "a", "child"),
            ("doc", "b", "child"),
            ("a", "doc", "source"),
            ("a", "b", "next"),
        ]

    def test_nodes_of_another_kind_have_none(self):
        with pytest.raises(NothingToReadError, match="none of the documents has relationships"):
            build_edges([Node("a", "A loom.", origin={"markdown": "A *loom*."})], Relationships())

    def test_what_a_real_splitter_makes(self):
        from llama_index.core import Document
        from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter

        text = " ".join(f"Sentence number {i} says a little." for i in range(60))
        chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0).get_nodes_from_documents([Document(text=text)])
        ids = [chunk.node_id for chunk in chunks]
        assert len(ids) > 3
        assert build_edges(to_nodes(chunks), Relationships()) == [(a, b, "next") for a, b in zip(ids, ids[1:], strict=False)]
        levels = HierarchicalNodeParser.from_defaults(chunk_sizes=[200, 50]).get_nodes_from_documents([Document(text=text)])
        edges = build_edges(to_nodes(levels), Relationships())
        children = {(level.parent_node.node_id, level.node_id, "child") for level in levels if level.parent_node}
        assert children and children == {edge for edge in edges if edge[2] == "child"}


class TestNetworkx:
    def test_there_and_back(self):
        graph = CorpusGraph(
            ["a", "b", "c"],
            ["one", "two", ""],
            titles=["A", "", "C"],
            types=["t", "", "t"],
            metadata=[{"text": "a field named text"}, {"year": 1}, {}],
            edges=[("a", "b", "r"), ("a", "b", "s"), ("b", "a", "r"), ("c", "c", "")],
        )
        back = CorpusGraph.from_nodes(*from_networkx(to_networkx(graph)))
        assert (back.ids, back.texts, back.titles, back.types, back.metadata) == (
            graph.ids,
            graph.texts,
            graph.titles,
            graph.types,
            graph.metadata,
        )
        order = attrgetter("source", "target", "relation")
        assert sorted(back.edges(), key=order) == sorted(graph.edges(), key=order)

    @pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph])
    def test_a_graph_of_ones_own(self, kind):
        made = kind()
        made.add_node(1, body="first", name="One", year=1900)
        made.add_edge(1, "two", label="to")
        nodes, edges = from_networkx(made, text="body", title="name", relation="label")
        assert nodes == [Node("1", "first", "One", metadata={"year": 1900}), Node("two", "two")]
        assert edges == as_edges(("1", "two", "to"))
        assert build_edges(nodes, made) == as_edges(("1", "two"))

    def test_the_karate_club(self):
        club = networkx.karate_club_graph()
        graph = CorpusGraph.from_nodes(*from_networkx(club))
        assert graph.degree.tolist() == [degree for _, degree in club.degree()]
        assert networkx.is_isomorphic(networkx.Graph(to_networkx(graph)), club)

    def test_what_is_no_graph(self):
        with pytest.raises(InvalidArgumentError, match="Expected a networkx graph, got dict"):
            from_networkx({})


def test_sizes_of_numpy_are_sizes():
    import numpy as np

    from graph_retrievers.construction.edges import NearestNeighbors

    assert NearestNeighbors(np.int64(3)).k == 3


def test_values_of_networkx_graphs_that_are_arrays():
    graph = networkx.DiGraph()
    graph.add_node("a", text="a loom", title=np.array(["x", "y"]))
    graph.add_edge("a", "b", text=np.array(["p", "q"]), relation=np.array(["r", "s"]))
    (edge,) = from_networkx(graph)[1]
    assert (edge.relation, edge.text) == ("['r' 's']", "['p' 'q']")
