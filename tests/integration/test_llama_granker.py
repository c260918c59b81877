"""GRankerPostprocessor: scores, edges from an index or from relationships, models, events."""

import pytest
import torch
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from graph_retrievers import Vector
from graph_retrievers.construction.edges import NearestNeighbors
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.models import PairScorer
from graph_retrievers.systems.fastinsight import GRanker
from llama_graph_retrievers import GRankerPostprocessor, GraphRetriever
from tests.helpers import HashEmbedding, WordOverlap, linked_index
from tests.integration.llama_corpus import HashEmbed, instrumentation_events, llama_nodes
from tests.rankings import Ranking, ranked

QUESTION = "Which loom with punched cards came before the engine?"


def scored(nodes, score=0.5):
    return [NodeWithScore(node=node, score=score) for node in nodes]


def pairs(nodes):
    return [(n.node.node_id, n.score) for n in nodes]


def chain_of_three():
    """a - b - c by NEXT and PREVIOUS, as a node parser leaves them, and d alone."""
    nodes = [TextNode(id_=name, text=name) for name in "abcd"]
    for left, right in ((0, 1), (1, 2)):
        nodes[left].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=nodes[right].node_id)
        nodes[right].relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=nodes[left].node_id)
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="a document that is not here")
    return nodes


def table(pairs):
    return [{"a": 1.0, "b": 0.0, "c": 2.0, "d": 1.5}[text] for _, text in pairs]


def test_is_a_postprocessor_with_a_name_and_fields():
    processor = GRankerPostprocessor(top_n=3, alpha=0.4, degree="subgraph", keep_retrieval_score=True)
    assert isinstance(processor, BaseNodePostprocessor)
    fields = {"top_n": 3, "alpha": 0.4, "degree": "subgraph", "weighted": False, "keep_retrieval_score": True, "model": None}
    assert processor.to_dict() == {**fields, "class_name": "GRankerPostprocessor"}
    assert GRankerPostprocessor.from_dict(processor.to_dict()).to_dict() == processor.to_dict()


def test_scores_by_hand_over_relationships():
    """a-b-c, degrees 1, 2, 1: a and c are pulled towards b, b to the mean of a and c, d is alone."""
    found = GRankerPostprocessor(model=table, alpha=0.5).postprocess_nodes(scored(chain_of_three()), query_str="q")
    assert pairs(found) == [("d", 1.5), ("c", 1.0), ("b", 0.75), ("a", 0.5)]


def test_alpha_zero_is_the_model_alone():
    found = GRankerPostprocessor(model=table, alpha=0).postprocess_nodes(scored(chain_of_three()), query_str="q")
    assert pairs(found) == [("c", 2.0), ("d", 1.5), ("a", 1.0), ("b", 0.0)]


def test_edges_can_be_given_instead_of_relationships():
    processor = GRankerPostprocessor(model=table, alpha=0.5, edges=[("a", "d")])
    found = processor.postprocess_nodes(scored(chain_of_three()), query_str="q")
    assert pairs(found) == [("c", 2.0), ("a", 1.25), ("d", 1.25), ("b", 0.0)]


def test_what_edges_say_of_absent_nodes_is_passed_over():
    processor = GRankerPostprocessor(model=table, alpha=0.5, edges=[("a", "d"), ("a", "absent"), ("topic", "tags")])
    found = processor.postprocess_nodes(scored(chain_of_three()), query_str="q")
    assert pairs(found) == [("c", 2.0), ("a", 1.25), ("d", 1.25), ("b", 0.0)]


def test_nearest_neighbours_link_nodes_beside_a_model():
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 1.0], "d": [0.7, 0.7]}
    nodes = [TextNode(id_=name, text=name, embedding=vector) for name, vector in vectors.items()]
    found = GRankerPostprocessor(model=table, alpha=0.5, edges=NearestNeighbors(1)).postprocess_nodes(scored(nodes), query_str="q")
    assert dict(pairs(found))["b"] == pytest.approx(1.0) and dict(pairs(found))["a"] == pytest.approx(1.25)


def test_on_an_index_it_gives_what_the_engines_operator_gives():
    index = linked_index()
    nodes = GraphRetriever(index, Vector(), similarity_top_k=6).retrieve(QUESTION)
    queries = Queries.of(index, QUESTION)
    rows = torch.tensor([[index.graph.row(n.node.node_id) for n in nodes]])
    expected = ranked(GRanker(0.3), queries, Ranking.of(rows, torch.zeros(1, 6), "x"))
    found = GRankerPostprocessor(top_n=4, alpha=0.3, index=index).postprocess_nodes(nodes, query_str=QUESTION)
    assert [index.graph.row(n.node.node_id) for n in found] == expected.nodes[0, :4].tolist()
    assert [n.score for n in found] == pytest.approx(expected.scores[0, :4].tolist())


def test_nodes_that_the_index_does_not_know_bring_their_own_edges():
    """b and c are on the index and linked there; d is new and says that it follows c. Together: b - c - d."""
    edges = [("a", "b"), ("b", "c")]
    index = GraphIndex.from_texts(["a", "b", "c"], ids=["a", "b", "c"], edges=edges, bm25=False, relevance=table)
    new = TextNode(id_="d", text="d", relationships={NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id="c")})
    nodes = scored([TextNode(id_="b", text="b"), TextNode(id_="c", text="c"), new])
    found = GRankerPostprocessor(alpha=0.5, index=index).postprocess_nodes(nodes, query_str="q")
    assert dict(pairs(found)) == {"b": 1.0, "c": 1.375, "d": 1.75}


def test_known_edges_keep_their_weights_beside_nodes_that_are_not_known():
    """a is pulled by b with weight 3 and by c with weight 1, each divided by its degree: 3/3 and 1/1 of its neighbours' mean."""
    edges = [Edge("a", "b", weight=3.0), Edge("a", "c", weight=1.0), Edge("b", "c", weight=1.0)]
    index = GraphIndex.from_texts(["a", "b", "c"], ids=["a", "b", "c"], edges=edges, bm25=False, relevance=table)
    nodes = scored([TextNode(id_=name, text=name) for name in "abcd"])
    processor = GRankerPostprocessor(alpha=0.5, weighted=True, index=index)
    found = dict(pairs(processor.postprocess_nodes(nodes, query_str="q")))
    weights = {"b": 3 / 4, "c": 1 / 2}
    mean = (weights["b"] * 0.0 + weights["c"] * 2.0) / sum(weights.values())
    assert found["a"] == pytest.approx(0.5 * 1.0 + 0.5 * mean) and found["d"] == 1.5


def test_an_embedding_of_ones_own_overrides_that_of_the_index():
    own = HashEmbed()
    embedding = HashEmbedding()
    index = linked_index(embedding)
    nodes = GraphRetriever(index, Vector()).retrieve(QueryBundle(QUESTION, embedding=embedding.embed_query(QUESTION)))
    before = (embedding.query_calls, embedding.document_calls)
    for given in (nodes, [*nodes, *scored([TextNode(id_="new", text="a new loom")])]):
        GRankerPostprocessor(index=index, embed_model=own).postprocess_nodes(given, query_str=QUESTION)
    assert own.queries == [QUESTION] * 2 and "a new loom" in own.texts
    assert (embedding.query_calls, embedding.document_calls) == before


def test_the_fallback_scores_by_vectors_and_stores_the_querys_back():
    embed_model, bundle = HashEmbed(), QueryBundle(QUESTION)
    nodes = llama_nodes()
    nodes[0].embedding = HashEmbedding().embed_query("nothing of the kind")
    processor = GRankerPostprocessor(embed_model=embed_model, alpha=0)
    found = processor.postprocess_nodes(scored(nodes), query_bundle=bundle)
    assert embed_model.queries == [QUESTION] and bundle.embedding is not None
    assert embed_model.texts == [n.get_content(MetadataMode.EMBED) for n in nodes[1:]]
    vectors = {n.node_id: n.embedding or HashEmbedding().embed_query(n.get_content(MetadataMode.EMBED)) for n in nodes}
    expected = {name: sum(x * y for x, y in zip(v, bundle.embedding, strict=True)) for name, v in vectors.items()}
    assert [n.score for n in found] == pytest.approx(sorted(expected.values(), reverse=True)[:10], abs=1e-6)


def test_a_model_reads_what_llama_index_embeds():
    asked = []
    node = TextNode(id_="a", text="body", metadata={"title": "Head", "secret": 1}, excluded_embed_metadata_keys=["secret"])
    GRankerPostprocessor(model=lambda p: [asked.extend(p)] and [0.0] * len(p)).postprocess_nodes(scored([node]), query_str=" q\n")
    assert asked == [("q", "title: Head\n\nbody")]


def test_a_model_of_ones_own_overrides_that_of_the_index():
    overlap = WordOverlap()
    index = linked_index()
    nodes = GraphRetriever(index, Vector()).retrieve(QUESTION)
    found = GRankerPostprocessor(model=overlap, alpha=0, index=index).postprocess_nodes(nodes, query_str=QUESTION)
    assert overlap.pairs == 10 and found[0].score == max(n.score for n in found) >= 2
    assert index.relevance.name == "bi-encoder"


def test_no_model_anywhere_names_the_way_out(monkeypatch):
    def unresolved(self):
        raise ImportError("no embeddings package")

    monkeypatch.setattr(type(Settings), "embed_model", property(unresolved))
    with pytest.raises(MissingSignalError, match="embed_model="):
        GRankerPostprocessor().postprocess_nodes(scored(chain_of_three()), query_str="q")


def test_without_a_query_it_is_a_value_error():
    with pytest.raises(InvalidArgumentError, match="query_bundle=") as caught:
        GRankerPostprocessor(model=table).postprocess_nodes(scored(chain_of_three()))
    assert isinstance(caught.value, ValueError)


def test_no_nodes_give_no_nodes():
    assert GRankerPostprocessor().postprocess_nodes([], query_str="q") == []


@pytest.mark.parametrize("knob", [{"top_n": 0}, {"alpha": 1.5}, {"alpha": -0.1}, {"degree": "out"}])
def test_knobs_out_of_range_are_value_errors(knob):
    with pytest.raises(ValueError, match=next(iter(knob))):
        GRankerPostprocessor(**knob)


def test_top_n_cuts_and_more_than_there_are_is_all():
    nodes = scored(chain_of_three())
    assert len(GRankerPostprocessor(top_n=2, model=table).postprocess_nodes(nodes, query_str="q")) == 2
    assert len(GRankerPostprocessor(top_n=50, model=table).postprocess_nodes(nodes, query_str="q")) == 4


def test_what_came_in_is_not_changed_and_the_old_score_can_be_kept():
    nodes = scored(chain_of_three())
    before = [n.model_copy(deep=True) for n in nodes]
    kept = GRankerPostprocessor(model=table, keep_retrieval_score=True).postprocess_nodes(nodes, query_str="q")
    assert nodes == before
    assert all(n.node.metadata["retrieval_score"] == 0.5 for n in kept)
    assert all(n.node.get_content(MetadataMode.LLM) == n.node.text for n in kept)
    plain = GRankerPostprocessor(model=table).postprocess_nodes(nodes, query_str="q")
    assert all("retrieval_score" not in n.node.metadata for n in plain)


def test_a_node_that_comes_twice_counts_once_at_its_first_place():
    nodes = scored(chain_of_three())
    processor = GRankerPostprocessor(model=table, alpha=0.5, keep_retrieval_score=True)
    twice = processor.postprocess_nodes([*nodes, NodeWithScore(node=nodes[1].node, score=0.1)], query_str="q")
    assert twice == processor.postprocess_nodes(nodes, query_str="q")


def test_equal_scores_keep_their_order():
    nodes = scored(reversed(chain_of_three()))
    found = GRankerPostprocessor(model=lambda p: [1.0] * len(p)).postprocess_nodes(nodes, query_str="q")
    assert [n.node.node_id for n in found] == list("dcba")


async def test_async_gives_the_same():
    nodes = scored(chain_of_three())
    processor = GRankerPostprocessor(model=table)
    assert await processor.apostprocess_nodes(nodes, query_str="q") == processor.postprocess_nodes(nodes, query_str="q")


def test_events_tell_of_the_reranking():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    model = PairScorer(table, "table")
    processor = GRankerPostprocessor(top_n=2, model=model, callback_manager=CallbackManager([handler]))
    with instrumentation_events() as events:
        found = processor.postprocess_nodes(scored(chain_of_three()), query_str="q")
    start, end = handler.get_event_pairs(CBEventType.RERANKING)[0]
    assert start.payload["query_str"] == "q" and start.payload["model_name"] == "table" and start.payload["top_k"] == 2
    assert len(start.payload["nodes"]) == 4 and end.payload["nodes"] == found
    assert [e.class_name() for e in events] == ["ReRankStartEvent", "ReRankEndEvent"]
    assert events[0].top_n == 2 and events[1].nodes == found
