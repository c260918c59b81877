"""LightRAG: entities and relations by two levels of keywords, and their chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graph_retrievers.arguments import choice
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgeTexts
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.facts import FactSearch
from graph_retrievers.search.round_robin import RoundRobin
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.lightrag.gathering import ChunkGathering, RelationGathering, within_tokens
from graph_retrievers.systems.lightrag.keywords import KeywordSearch, as_extractor
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import holds_passages, passage_types

__all__ = ["LightRAG"]

_MODES = (None, "local", "global", "hybrid", "mix")


@dataclass(frozen=True, kw_only=True, repr=False)
class LightRAG(System):
    r"""Entities by low-level keywords, relations by high-level keywords, and the chunks that belong to both.

    .. math:: O_{vs} \to O_{gs}

    ``"local"`` searches entities, in order of similarity, and uses their relations, those between nodes with many neighbours
    first. ``"global"`` searches relations and uses the nodes that they join, in the order of the relations, source before target.
    ``"hybrid"`` does both and alternates between the two, local entities and relations first. ``"mix"`` adds a search of the
    chunks by the question itself.

    The index needs vectors. Relations are searched by the signal ``"edge_dense"``, or else ``"edge_bm25"``
    (``GraphIndex.from_graph(..., edge_signals=True)``).

    Parameters
    ----------
    mode : {"local", "global", "hybrid", "mix"}, optional
        By default ``"local"`` on an index whose relations cannot be searched; else ``"mix"``, the authors' default, if there are
        passages, and the equivalent ``"hybrid"`` in a knowledge graph without passages.
    language_model : object, optional
        Finds the keywords of a question (see :func:`graph_retrievers.signals.language.as_language_model`), or an object with
        ``extract(questions)`` (see :class:`~graph_retrievers.systems.lightrag.keywords.KeywordExtractor`).
    top_k : int, default 40
        Numbers of entities and of relations to search.
    chunk_top_k : int, default 20
        Number of chunks that ``"mix"`` searches.
    related_chunks : int, default 5
        See :class:`~graph_retrievers.systems.lightrag.gathering.ChunkGathering`.
    chunk_pick : {"vector", "weight"}, optional
        Which chunks of entities and relations to use, see there: by default ``"vector"`` if there are passages, and ``"weight"``
        in a knowledge graph without passages, whose entities then keep their order.
    threshold : float, default 0.2
        Cosine that entities, relations and chunks of a search must exceed.
    entity_tokens, relation_tokens : int, default 6000 and 8000
        Budgets for the texts of entities and relations.
    facts : bool, default False
        Whether the relations are additional hits, of kind "fact", after the k nodes.
    passage_type : str, default "passage"
        Node type of chunks, as :func:`~graph_retrievers.construction.knowledge_readers.from_graph_documents` reads them. If no
        node, or every node, has this type, each node is an entity and its own chunk.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range, and, from a retriever, for a mode other than "local" on an index that has no signal over its
        edges, or whose edges have neither texts nor relations.

    Notes
    -----
    There is one ranking: the chunks of the search, of entities and of relations alternate, then the entities alternate.
    ``types=["passage"]`` of the retriever keeps only passages. ``retrieve`` takes
    ``keywords={"high_level_keywords": [...], "low_level_keywords": [...]}``; without them and without a language model, the
    question is used for both levels.

    Departures from the published code: the chunks of a relation are the passages linked to both of its ends, because edges do not
    record their text; parallel edges are separate relations; an edge without a text is searched as "source relation target"; the
    source of a relation comes before its target, while the original stores them in alphabetical order; a question without
    keywords is searched itself, whatever its length; a mode for one level does not switch to another when that level has no
    keywords; tokens are estimated, and there is no budget for the whole prompt, because k limits the hits.

    References
    ----------
    Guo et al., "LightRAG: Simple and Fast Retrieval-Augmented Generation", EMNLP Findings 2025, section 3.2, and its code,
    ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> embed = lambda texts: [[float(word in text) for word in ("loom", "card")] for text in texts]
    >>> index = GraphIndex.from_texts(["a loom", "paper", "an engine"], edges=[("0", "1", "reads")], embedding=embed)
    >>> [hit.path.text for hit in Retriever(index, LightRAG(), backfill=False).retrieve("Which loom?").nodes]
    ['0', '0 -[reads]-> 1']
    """

    name = "lightrag"
    finds_less_over = "passages"
    reads_edge_signals = True

    mode: str | None = None
    language_model: Any = None
    top_k: Count = 40
    chunk_top_k: Count = 20
    related_chunks: Count = 5
    chunk_pick: str | None = None
    threshold: float = 0.2
    entity_tokens: Count = 6000
    relation_tokens: Count = 8000
    facts: bool = False
    passage_type: str = "passage"

    def __post_init__(self) -> None:
        """Check the choices."""
        choice("mode", self.mode, _MODES)
        choice("chunk_pick", self.chunk_pick, (None, "vector", "weight"))

    def compose(self, index: Corpus) -> Operator:
        """Return the searches of the mode, then the chunks."""
        graph, mode = index.facts, self.mode
        chunks = passage_types(graph, self.passage_type)
        passages = bool(chunks) or holds_passages(graph)
        if mode is None and not graph.has_edges:
            mode = "local"
        if mode is None:
            try:
                mode = "mix" if _relation_signal(index) and passages else "hybrid"
            except InvalidArgumentError:
                mode = "local"
        by_level = partial(
            KeywordSearch,
            # One extractor for both levels, so that it is called once.
            extractor=None if self.language_model is None else as_extractor(self.language_model),
            alone=mode in ("local", "global"),
            threshold=self.threshold,
            exclude_types=chunks,
        )
        entities = Pipeline(
            by_level(VectorSearch(self.top_k, returned=False), "low"),
            RelationGathering(self.relation_tokens, exclude_types=chunks),
        )
        levels: Operator = entities
        if mode != "local":
            relations = by_level(FactSearch(self.top_k, signal=_relation_signal(index)), "high")
            levels = relations if mode == "global" else RoundRobin(entities, relations)
        pick = self.chunk_pick or ("vector" if passages else "weight")
        gathering = partial(self.part, ChunkGathering, pick=pick, chunk_types=chunks, related=self.related_chunks)
        lists: list[Operator] = [gathering("entities"), gathering("relations")]
        if mode == "mix" and passages:
            entity_types = tuple(name for name in graph.type_names if chunks and name not in chunks)
            search = VectorSearch(self.chunk_top_k, returned=False)
            lists.insert(0, KeywordSearch(search, None, threshold=self.threshold, exclude_types=entity_types))
        return _Levels(levels, RoundRobin(*lists), facts=self.facts, relation_tokens=self.relation_tokens)


class _Levels(Pipeline):
    """A pipeline that returns relations only if they are requested as hits, as many as the budget allows."""

    def __init__(self, *operators: Operator, facts: bool, relation_tokens: int) -> None:
        super().__init__(*operators)
        self.facts, self.relation_tokens = facts, relation_tokens

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return all that the operators find; relations only if they are requested as hits."""
        candidates = yield from super().search(question, candidates)
        if not self.facts or candidates.facts is None:
            return replace(candidates, facts=None)
        mask = within_tokens((yield EdgeTexts(candidates.facts.rows)), self.relation_tokens)
        return replace(candidates, facts=candidates.facts.taken(mask))


def _relation_signal(index: Corpus) -> str:
    """Return the signal over the edges; InvalidArgumentError, with the reason, if relations cannot be searched."""
    graph = index.facts
    signal = next((name for name in ("edge_dense", "edge_bm25") if name in index.signals), None)
    bare = not graph.has_edges
    if bare and not index.is_scope:
        raise InvalidArgumentError("Relations cannot be searched, as the graph has no edges. Add some, or choose mode='local'.")
    # A scope may have no edges: a requested mode then finds no relations.
    readable = signal and (bare or any(graph.relation_names) or graph.fact("edges have texts", lambda graph: any(graph.edge_texts)))
    if signal is None or not readable:
        reason = "edges have neither texts nor relations" if signal else "index has no signal over its edges"
        raise InvalidArgumentError(
            f"Relations cannot be searched by high-level keywords, as the {reason}. Give edges texts or relations and build the "
            "index with edge_signals=True and embedding=, or choose mode='local'."
        )
    return signal
