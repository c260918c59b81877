"""The named systems of the engine as LlamaIndex retrievers; systems.pyi declares their arguments for type checkers."""

from __future__ import annotations

from llama_graph_retrievers.retrievers import IndexRetriever


class VectorRetriever(IndexRetriever, system="vector"):
    """Vector search on an index."""


class BM25Retriever(IndexRetriever, system="bm25", embeds_nodes=False):
    """BM25 on an index; needs no embedding model.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [TextNode(id_="loom", text="A loom."), TextNode(id_="card", text="A card.")]
    >>> BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=1).retrieve("Which card?")[0].text
    'A card.'
    """


class HybridRetriever(IndexRetriever, system="hybrid"):
    """Vector search and BM25 on an index."""


class Re2Retriever(IndexRetriever, system="re2"):
    """Retrieve-then-rerank on an index."""


class FastInsightRetriever(IndexRetriever, system="fastinsight"):
    """FastInsight on an index.

    Examples
    --------
    >>> from llama_graph_retrievers import provenance
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [TextNode(id_="loom", text="A loom."), TextNode(id_="card", text="A card.")]
    >>> def embed(texts):
    ...     return [[float("loom" in text.lower()), 1.0] for text in texts]
    >>> retriever = FastInsightRetriever.from_defaults(
    ...     nodes=nodes, embed_model=embed, edges=[("loom", "card", "reads")], nodes_per_round=1
    ... )
    >>> for hit in retriever.retrieve("Which loom?"):
    ...     print(provenance(hit)["operator"], provenance(hit)["path"]["nodes"], hit.text)
    VectorSearch ['loom'] A loom.
    STeX ['loom', 'card'] A card.
    """


class GARRetriever(IndexRetriever, system="gar"):
    """GAR, graph-based adaptive reranking, on an index."""


class PPRRetriever(IndexRetriever, system="ppr"):
    """Personalized PageRank on an index."""


class WalkFusionRetriever(IndexRetriever, system="walk-fusion"):
    """WalkFusion on an index."""


class SpreadingActivationRetriever(IndexRetriever, system="spreading"):
    """Query-aware spreading activation on an index; ``inputs={"entities": function}`` names the entities of a question."""


class LightRAGRetriever(IndexRetriever, system="lightrag"):
    """LightRAG on an index; ``inputs={"keywords": function}`` passes known keywords."""


class PathRAGRetriever(IndexRetriever, system="pathrag"):
    """PathRAG on an index; ``inputs={"keywords": function}`` passes known keywords."""


class GRAGRetriever(IndexRetriever, system="g-rag"):
    """G-RAG on an index; :class:`~llama_graph_retrievers.GRAGPostprocessor` reranks the results of another retriever."""


class PathRerankingRetriever(IndexRetriever, system="path-reranking"):
    """Path reranking on an index: a cross-encoder reads each passage with the one from which it was reached."""


class LeSeGRRetriever(IndexRetriever, system="lesegr"):
    """LeSeGR on an index; the ``context`` in a node's provenance contains the neighbours that gave it context."""


class GRetrieverRetriever(IndexRetriever, system="g-retriever"):
    """G-Retriever on an index: the nodes of a subgraph that connects the matches."""


class HippoRAGRetriever(IndexRetriever, system="hipporag"):
    """HippoRAG 2 on an index with facts."""


class LinearRAGRetriever(IndexRetriever, system="linear-rag"):
    """LinearRAG on an index of texts, linked or not; ``inputs={"entities": function}`` passes the names in a question, if known."""


class MoRRetriever(IndexRetriever, system="mor"):
    """MoR on an index; ``inputs={"plan": function}`` or ``retrieve_batch(questions, plan=[...])`` pass known plans."""


class EagerRetriever(IndexRetriever, system="eager"):
    """DataStax's eager traversal on an index."""


class MMRRetriever(IndexRetriever, system="mmr"):
    """DataStax's traversal by maximal marginal relevance on an index."""


class ScoredRetriever(IndexRetriever, system="scored"):
    """DataStax's traversal by scores on an index."""


class HyDERetriever(IndexRetriever, system="hyde"):
    """HyDE on an index; ``language_model`` may be a LlamaIndex ``LLM``."""


class DecompositionRetriever(IndexRetriever, system="decomposition"):
    """Query decomposition on an index; ``language_model`` may be a LlamaIndex ``LLM``."""


class IRCoTRetriever(IndexRetriever, system="ircot"):
    """IRCoT on an index; ``language_model`` may be a LlamaIndex ``LLM``."""


__all__ = sorted(name for name in globals() if name.endswith("Retriever") and name != IndexRetriever.__name__)
