"""Rerankers of LlamaIndex as relevance models."""

import pickle

import pytest
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from graph_retrievers import GraphIndex, Re2, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.models import as_relevance_model
from llama_graph_retrievers import FastInsightRetriever, GRankerPostprocessor
from tests.helpers import linked_index
from tests.integration.llama_corpus import HashEmbed, llama_nodes

QUESTION = "a loom with punched cards"
dispatcher = get_dispatcher(__name__)


class Encoder:
    """Counts common words, as sentence-transformers' CrossEncoder scores pairs."""

    def predict(self, pairs):
        return [len(set(query.lower().split()) & set(text.lower().rstrip(".").split())) - 2.5 for query, text in pairs]


class Rerank(BaseNodePostprocessor):
    """LlamaIndex' SentenceTransformerRerank, line by line, but for its model."""

    model: str = Field(default="a cross-encoder")
    top_n: int = Field(default=2)
    keep_retrieval_score: bool = Field(default=False)
    _model: Encoder = PrivateAttr(default_factory=Encoder)

    @classmethod
    def class_name(cls):
        return "SentenceTransformerRerank"

    def _postprocess_nodes(self, nodes, query_bundle=None):
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=self.model))
        if query_bundle is None:
            raise ValueError("Missing query bundle in extra info.")
        if len(nodes) == 0:
            return []
        pairs = [(query_bundle.query_str, n.node.get_content(metadata_mode=MetadataMode.EMBED)) for n in nodes]
        with self.callback_manager.event(CBEventType.RERANKING, payload={EventPayload.NODES: nodes}) as event:
            scores = self._model.predict(pairs)
            assert len(scores) == len(nodes)
            for node, score in zip(nodes, scores, strict=True):
                if self.keep_retrieval_score:
                    node.node.metadata["retrieval_score"] = node.score
                node.score = float(score)
            ranked = sorted(nodes, key=lambda x: -x.score if x.score else 0)[: self.top_n]
            event.on_end(payload={EventPayload.NODES: ranked})
        dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked


class Choosing(BaseNodePostprocessor):
    """As LLMRerank: new results, only of what is relevant, in an order of its own."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [NodeWithScore(node=n.node, score=7.0) for n in reversed(nodes) if "loom" in n.node.get_content().lower()]


class Unscored(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [NodeWithScore(node=n.node) for n in nodes]


def scores(model, queries, texts):
    relevance = as_relevance_model(model)
    return relevance.score(relevance.encode(queries, texts)).tolist()


def test_every_pair_gets_its_score_whatever_top_n_says():
    model = Rerank(top_n=1)
    texts = ["A loom.", "Punched cards.", "A loom with cards.", "Brass."]
    expected = [pair - 2.5 for pair in (2, 2, 4, 0)]
    assert scores(model, [QUESTION] * 4, texts) == expected
    assert scores(model, ["brass", QUESTION, "brass"], [texts[3], texts[0], texts[0]]) == [-1.5, -0.5, -2.5]
    assert model.top_n == 1 and as_relevance_model(model).name == "Rerank"


def test_texts_that_a_reranker_leaves_out_come_last():
    assert scores(Choosing(), ["q", "q", "q"], ["A loom.", "A card.", "Looms."]) == [7.0, 0.0, 7.0]


def test_a_postprocessor_without_scores_is_refused():
    with pytest.raises(InvalidArgumentError, match="Unscored"):
        scores(Unscored(), ["q"], ["a loom"])


def test_rerankers_serve_retrievers_and_postprocessors():
    index = linked_index()
    by_pairs = Retriever(index.with_models(relevance=Encoder().predict), Re2()).retrieve(QUESTION)
    assert [(h.id, h.score) for h in Retriever(index.with_models(relevance=Rerank()), Re2()).retrieve(QUESTION)] == [
        (h.id, h.score) for h in by_pairs
    ]
    retriever = FastInsightRetriever.from_defaults(
        nodes=llama_nodes(), embed_model=HashEmbed(), relevance=Rerank(), similarity_top_k=5
    )
    assert len(retriever.retrieve(QUESTION)) == 5
    found = [NodeWithScore(node=node, score=1.0) for node in llama_nodes()]
    ours = GRankerPostprocessor(model=Rerank(), alpha=0, top_n=3).postprocess_nodes(found, query_str=QUESTION)
    theirs = Rerank(top_n=3).postprocess_nodes(found, query_bundle=QueryBundle(QUESTION))
    assert [n.score for n in ours] == [n.score for n in theirs]
    relevance = pickle.loads(pickle.dumps(as_relevance_model(Rerank())))  # noqa: S301
    assert relevance.encode([QUESTION], ["A loom."]).tolist() == [[-0.5]]


def test_documents_of_the_engine_are_not_asked_for_metadata():
    seen = []

    class Seeing(Choosing):
        def _postprocess_nodes(self, nodes, query_bundle=None):
            seen.extend(n.node for n in nodes)
            return super()._postprocess_nodes(nodes, query_bundle)

    index = GraphIndex.from_documents(
        [TextNode(text="A loom.", metadata={"file_path": "/a"})], relevance=Seeing(), embedding=HashEmbed()
    )
    assert Retriever(index, Re2()).retrieve("loom")[0].score == 7.0 and [node.metadata for node in seen] == [{}]
