"""The named systems of the engine as LangChain retrievers; systems.pyi declares their arguments for type checkers."""

from __future__ import annotations

from langchain_graph_retrievers.retrievers import IndexRetriever


class VectorRetriever(IndexRetriever, system="vector"):
    """:class:`graph_retrievers.Vector` as a LangChain retriever."""


class BM25Retriever(IndexRetriever, system="bm25"):
    """:class:`graph_retrievers.BM25` as a LangChain retriever."""


class HybridRetriever(IndexRetriever, system="hybrid"):
    """:class:`graph_retrievers.Hybrid` as a LangChain retriever."""


class Re2Retriever(IndexRetriever, system="re2"):
    """:class:`graph_retrievers.Re2` as a LangChain retriever."""


class FastInsightRetriever(IndexRetriever, system="fastinsight"):
    """:class:`graph_retrievers.FastInsight` as a LangChain retriever."""


class GARRetriever(IndexRetriever, system="gar"):
    """:class:`graph_retrievers.GAR` as a LangChain retriever."""


class PPRRetriever(IndexRetriever, system="ppr"):
    """:class:`graph_retrievers.PPR` as a LangChain retriever."""


class WalkFusionRetriever(IndexRetriever, system="walk-fusion"):
    """:class:`graph_retrievers.WalkFusion` as a LangChain retriever.

    ``invoke(question, entities=["Ada Lovelace"])`` passes the names that the question mentions, if they are known.
    """


class SpreadingActivationRetriever(IndexRetriever, system="spreading"):
    """:class:`graph_retrievers.SpreadingActivation` as a LangChain retriever.

    ``invoke(question, entities=["Ada Lovelace"])`` passes the names that the question mentions, if they are known. Chains are
    documents with the metadata ``kind`` "chain"; their text is the chain, ``a -[relation]-> b``.
    """


class LightRAGRetriever(IndexRetriever, system="lightrag"):
    """:class:`graph_retrievers.LightRAG` as a LangChain retriever.

    ``invoke(question, keywords={"low_level_keywords": ["Ada Lovelace"]})`` passes keywords, if they are known. With
    ``facts=True``, relations are documents with the metadata ``kind`` "fact".
    """


class PathRAGRetriever(IndexRetriever, system="pathrag"):
    """:class:`graph_retrievers.PathRAG` as a LangChain retriever; ``invoke`` takes ``keywords`` as for LightRAG."""


class GRAGRetriever(IndexRetriever, system="g-rag"):
    """:class:`graph_retrievers.GRAG` as a LangChain retriever.

    To rerank the results of another retriever, see :class:`~langchain_graph_retrievers.GRAGCompressor`.
    """


class PathRerankingRetriever(IndexRetriever, system="path-reranking"):
    """:class:`graph_retrievers.PathReranking` as a LangChain retriever."""


class LeSeGRRetriever(IndexRetriever, system="lesegr"):
    """:class:`graph_retrievers.LeSeGR` as a LangChain retriever.

    With ``provenance=True``, the metadata ``context`` of a document contain the neighbours that gave it context.
    """


class GRetrieverRetriever(IndexRetriever, system="g-retriever"):
    """G-Retriever on an index: the nodes of a subgraph that connects the matches."""


class HippoRAGRetriever(IndexRetriever, system="hipporag"):
    """HippoRAG 2 on an index with facts."""


class LinearRAGRetriever(IndexRetriever, system="linear-rag"):
    """LinearRAG on an index of texts, linked or not; ``invoke(question, entities=[...])`` passes the names in it, if known."""


class MoRRetriever(IndexRetriever, system="mor"):
    """:class:`graph_retrievers.MoR` as a LangChain retriever.

    ``invoke(question, plan=[...])`` passes the question's plan, if it is known. With ``provenance=True``, the metadata ``path``
    is the trajectory, and ``notes`` say why a plan could not be followed.
    """


class EagerRetriever(IndexRetriever, system="eager"):
    """:class:`graph_retrievers.Eager` as a LangChain retriever."""


class MMRRetriever(IndexRetriever, system="mmr"):
    """:class:`graph_retrievers.MMR` as a LangChain retriever."""


class ScoredRetriever(IndexRetriever, system="scored"):
    """:class:`graph_retrievers.Scored` as a LangChain retriever."""


class HyDERetriever(IndexRetriever, system="hyde"):
    """:class:`graph_retrievers.HyDE` as a LangChain retriever; `language_model` may be a chat model."""


class DecompositionRetriever(IndexRetriever, system="decomposition"):
    """:class:`graph_retrievers.Decomposition` as a LangChain retriever; `language_model` may be a chat model."""


class IRCoTRetriever(IndexRetriever, system="ircot"):
    """:class:`graph_retrievers.IRCoT` as a LangChain retriever; `language_model` may be a chat model."""


__all__ = sorted(name for name in globals() if name.endswith("Retriever") and name != IndexRetriever.__name__)
