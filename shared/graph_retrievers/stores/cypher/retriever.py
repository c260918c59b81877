"""Query-aware spreading activation inside a graph database: one query, one round trip, and the graph stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from torch import Tensor

from graph_retrievers.stores.cypher.answers import answer
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.filters import filter_predicate
from graph_retrievers.stores.cypher.query import QueryPlan, query_text
from graph_retrievers.stores.cypher.questions import Question, question_notes, read_questions, word_runs
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking
from graph_retrievers.operators.operator import positive
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.hits import Hits
from graph_retrievers.signals.embedding import as_embedding

__all__ = ["CypherSpreadingActivation"]

# Names that are looked at, once, to see whether names are capitalised.
_SAMPLE = 10_000
# Queries of a batch that run at a time.
_CONCURRENT = 8


@dataclass(frozen=True)
class _Batch:
    """Questions, and what their queries share."""

    questions: list[Question]
    plan: QueryPlan
    parameters: dict[str, Any]

    @property
    def needs_names(self) -> bool:
        """Whether names are to be found in the text of a question."""
        return any(question.entities is None for question in self.questions)


class CypherSpreadingActivation:
    """Spreading activation as one Cypher query: seeds, T steps, entities and chains in one round trip.

    The parameters and the results are those of
    :class:`~graph_retrievers.retrievers.spreading_activation.SpreadingActivation` on the same graph (activations to 1e-6),
    with what is said below.

    Parameters
    ----------
    database : CypherDatabase
    embedding : object, optional
        Embedding model of the nodes' vectors. Not needed where every question comes with its vector, or the gate is
        uniform, and the entities are all found by name.
    steps, decay, threshold, gate, semantics, language_model
        As for the engine's; the gate is "cosine" or "uniform".
    linking : EntityLinking, optional
        As for the engine's; case is always folded.
    chains, chain_search
        As for the engine's: "hits", "path" or None; and the limits of the search.
    passages, passage_type
        As for the engine's, but the types are taken at their word, whether there is a node of the type or not.
    vector_index : str, optional
        Vector index that brings seeds where no name is found. By default all vectors are compared, which needs no index and
        is exact.
    k : int, default 30
        Nodes to return.
    name : str, optional
        How tables call it; the name of the class by default.

    Attributes
    ----------
    inputs : tuple of str
        Names of further per-query arguments: ``("entities",)``.

    Raises
    ------
    MissingDatabaseFeatureError
        If the vector index cannot be searched.
    InvalidArgumentError
        For an option outside its range.

    Notes
    -----
    Filters are mappings and become part of the query, as parameters. They read the properties that
    :func:`~graph_retrievers.stores.cypher.writer.write_graph` makes of metadata. With a vector index and a filter on seeds, ten
    times the candidates are asked for, and seeds that are not among them are not found; without an index the search is exact.

    Nothing is filled up from vector search. Names of more than 20 words are not found in a question. The chains are
    searched with the bounds of :class:`~graph_retrievers.operators.spreading.chains.ChainSearch`, in the database; nothing of its
    length grows exponentially.

    A retriever may serve many threads and tasks at a time. Its first question without entities reads up to 10,000 names
    beforehand, to see whether names are capitalised; every other question is one query.
    """

    inputs: tuple[str, ...] = ("entities",)

    def __init__(
        self,
        database: CypherDatabase,
        *,
        embedding: Any = None,
        steps: int = 3,
        decay: float = 0.7,
        threshold: float = 0.01,
        gate: str = "cosine",
        semantics: str = "set",
        language_model: Any = None,
        linking: EntityLinking | None = None,
        chains: str | None = None,
        chain_search: ChainSearch | None = None,
        passages: bool | None = None,
        passage_type: str = "passage",
        vector_index: str | None = None,
        k: int = 30,
        name: str | None = None,
    ) -> None:
        if not isinstance(database, CypherDatabase):
            raise InvalidArgumentError(f"Expected a CypherDatabase, got {type(database).__name__}; open one first.")
        if gate not in ("cosine", "uniform"):
            raise InvalidArgumentError(f"Unknown gate {gate!r}; choose 'cosine' or 'uniform'.")
        if chains not in (None, "hits", "path"):
            raise InvalidArgumentError(f"Unknown chains {chains!r}; choose 'hits', 'path' or None.")
        if linking is not None and (language_model is not None or linking.case != "fold"):
            raise InvalidArgumentError("linking= takes a language_model of its own, and must fold case.")
        # What it shares with the engine is checked there.
        GatedPropagation(steps=steps, decay=decay, threshold=threshold, gate=gate, semantics=semantics)
        self.database = database
        self.embedding = as_embedding(embedding) if embedding is not None else None
        self.linking = linking or EntityLinking(language_model=language_model)
        self.chains, self.chain_search = chains, chain_search or ChainSearch(semantics=semantics)
        self.vector_index, self.k = vector_index, positive("k", k)
        self.name = name or type(self).__name__
        no_walk = [] if passages is None else [passage_type]
        no_seeds = [*self.linking.exclude_types, *no_walk]
        self._plan = QueryPlan(
            steps=steps,
            gate=gate,
            semantics=semantics,
            fallback_score=self.linking.fallback_score,
            chains=self.chain_search if chains is not None else None,
            has_index=vector_index is not None,
            seeds_filtered=bool(no_seeds),
            walk_filtered=bool(no_walk),
            passages=bool(passages),
        )
        self._parameters = {
            "decay": float(decay),
            "threshold": float(threshold),
            "index": vector_index,
            "chains": self.chain_search.limit,
            "width": self.chain_search.width,
            "no_seeds": no_seeds,
            "no_walk": no_walk,
            "passage_type": passage_type,
        }
        self._capitals: bool | None = None
        if vector_index is not None:
            self._check_index()

    def __repr__(self) -> str:
        """Return the database and the settings."""
        return f"{self.name}({self.database!r}, gate={self._plan.gate!r}, steps={self._plan.steps}, k={self.k})"

    def __enter__(self) -> CypherSpreadingActivation:
        """Return the retriever."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connection to the database."""
        self.close()

    async def __aenter__(self) -> CypherSpreadingActivation:
        """Return the retriever."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection to the database."""
        await self.aclose()

    def close(self) -> None:
        """Close the connection to the database."""
        self.database.close()

    async def aclose(self) -> None:
        """Close the connection to the database, and what asynchronous calls of this event loop opened."""
        await self.database.aclose()

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Mapping[str, Any] | None = None,
        seed_filter: Mapping[str, Any] | None = None,
        traversal_filter: Mapping[str, Any] | None = None,
        entities: Sequence[str] | None = None,
    ) -> Hits:
        """Return the hits for one query.

        Parameters
        ----------
        query : str
        k : int, optional
            Nodes to return; the retriever's own k by default. Fewer come where activation reaches fewer.
        vector : array-like, shape [d], optional
            The query's vector, if it is known already.
        filter : mapping, optional
            Which nodes may be returned; activation may pass through others. A condition on metadata, as for
            :func:`graph_retrievers.graph.filters.filter_mask`; it becomes part of the query (see
            :func:`graph_retrievers.stores.cypher.filters.filter_predicate`).
        seed_filter, traversal_filter : mapping, optional
            Which nodes may be seeds; which nodes activation may enter, passages included.
        entities : sequence of str, optional
            Names that the query is about, if they are known.

        Returns
        -------
        Hits
            Nodes by activation, best first, each with the path that carried it; then the chains, if they are to be hits,
            without those that end at a node that may not be returned.

        Raises
        ------
        InvalidArgumentError
            If the query is empty, k is below 1, or a filter cannot be part of a query.
        EmptyGraphError
            If the database holds no node of the schema's label.
        MissingSignalError
            If a vector is needed and there is no embedding model.
        DimensionMismatchError, InvalidVectorError
            If the vector is not [d], is zero, or holds NaN or infinity.
        DatabaseError
            If the database fails.
        """
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter}
        return self.retrieve_batch([query], k, vectors=_one_row(vector), entities=[entities], **filters)[0]

    async def aretrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Mapping[str, Any] | None = None,
        seed_filter: Mapping[str, Any] | None = None,
        traversal_filter: Mapping[str, Any] | None = None,
        entities: Sequence[str] | None = None,
    ) -> Hits:
        """Return what :meth:`retrieve` does, without blocking the event loop."""
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter}
        return (await self.aretrieve_batch([query], k, vectors=_one_row(vector), entities=[entities], **filters))[0]

    def retrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Mapping[str, Any] | None = None,
        seed_filter: Mapping[str, Any] | None = None,
        traversal_filter: Mapping[str, Any] | None = None,
        entities: Sequence[Sequence[str] | None] | None = None,
    ) -> list[Hits]:
        """Return the hits for many queries: models are asked once, the database query by query.

        Parameters
        ----------
        queries : sequence of str, length B
        k, filter, seed_filter, traversal_filter
            As for :meth:`retrieve`, the same for all queries.
        vectors : array-like, shape [B, d], or callable, optional
            The queries' vectors, or a function from a list of texts to them. The function also embeds entities where the
            retriever has no embedding model.
        entities : sequence of (sequence of str or None), length B, optional
            Names that each query is about, None where they are not known.

        Returns
        -------
        list of Hits, length B
            What :meth:`retrieve` gives for each query.
        """
        batch = self._batch(queries, k, vectors, (filter, seed_filter, traversal_filter), entities)
        if self._capitals is None and batch.needs_names:
            self._read_names(self.database.read(self._some_names(), limit=_SAMPLE))
        results = []
        for question in batch.questions:
            text, parameters = self._query(batch, question)
            results.append(self._answer(question, parameters, self.database.read(text, **parameters)))
        return results

    async def aretrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Mapping[str, Any] | None = None,
        seed_filter: Mapping[str, Any] | None = None,
        traversal_filter: Mapping[str, Any] | None = None,
        entities: Sequence[Sequence[str] | None] | None = None,
    ) -> list[Hits]:
        """Return what :meth:`retrieve_batch` does, without blocking the event loop; up to 8 queries run at a time."""
        filters = (filter, seed_filter, traversal_filter)
        # Models compute in a thread; the database answers over the event loop.
        batch = await asyncio.to_thread(self._batch, queries, k, vectors, filters, entities)
        if self._capitals is None and batch.needs_names:
            self._read_names(await self.database.aread(self._some_names(), limit=_SAMPLE))
        places = asyncio.Semaphore(_CONCURRENT)

        async def ask(question: Question) -> Hits:
            async with places:
                text, parameters = self._query(batch, question)
                return self._answer(question, parameters, await self.database.aread(text, **parameters))

        tasks = [asyncio.ensure_future(ask(question)) for question in batch.questions]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            # The others would go on, and their errors would be lost.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    # -- asking -------------------------------------------------------------------------------------------------

    def _batch(
        self,
        queries: Sequence[str],
        k: int | None,
        vectors: Any,
        filters: tuple[Mapping[str, Any] | None, ...],
        entities: Sequence[Sequence[str] | None] | None,
    ) -> _Batch:
        """Check the arguments, and return the questions with what models say and the plan of their queries."""
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            raise InvalidArgumentError(f"retrieve_batch takes a list of queries, got {queries!r}; call retrieve for one.")
        k = self.k if k is None else positive("k", k)
        if entities is not None and len(entities) != len(queries):
            raise InvalidArgumentError(f"entities has {len(entities)} entries for {len(queries)} queries.")
        returned, seeds, walked = (
            None if condition is None else filter_predicate(self.database.schema, condition, name)
            for name, condition in zip(("filter", "seed_filter", "traversal_filter"), filters, strict=True)
        )
        parameters = {**self._parameters, "k": k}
        for predicate in (returned, seeds, walked):
            parameters |= predicate.parameters if predicate is not None else {}
        plan = replace(self._plan, filter=returned, seed_filter=seeds, traversal_filter=walked)
        questions = read_questions(
            queries,
            vectors,
            entities,
            embedding=self.embedding,
            language_model=self.linking.language_model,
            needs_vectors=self._plan.gate == "cosine",
        )
        return _Batch(questions, plan, parameters)

    def _query(self, batch: _Batch, question: Question) -> tuple[str, dict[str, Any]]:
        """Return the text of a question's query and its parameters."""
        vector = None if question.vector is None else question.vector.tolist()
        budget = self.linking.budget
        parameters = {**batch.parameters, "question": vector, "each": budget}
        if question.entities:
            each = max(1, budget // len(question.entities))
            vectors = [None] * len(question.entities) if question.names is None else question.names.tolist()
            parameters |= {
                "each": each,
                "room": 0 if question.names is None else budget // each,
                "entities": [
                    {"number": number, "key": name_key(name), "vector": found}
                    for number, (name, found) in enumerate(zip(question.entities, vectors, strict=True))
                ],
            }
        else:
            parameters |= {
                "spans": [] if question.entities is not None else word_runs(question.text),
                "fallback": [] if vector is None else [vector],
                "capitals": self._capitals,
            }
        return query_text(self.database, batch.plan, bool(question.entities)), parameters

    def _answer(self, question: Question, parameters: Mapping[str, Any], rows: list[dict[str, Any]]) -> Hits:
        (row,) = rows
        if not row["filled"]:
            raise self._empty()
        notes = question_notes(question, row["missing"], parameters.get("room", 0))
        if not row["touched"]:
            notes += ("no node is near enough to start from",)
        return answer(row, notes, self.chains, self.chain_search, self._plan.passages)

    def _check_index(self) -> None:
        names = self.database.schema.names()
        self.database.read(
            f"MATCH (n:{names['label']}) WHERE n.{names['embedding']} IS NOT NULL WITH n LIMIT 1 "
            f"CALL db.index.vector.queryNodes($index, 1, n.{names['embedding']}) YIELD node RETURN node.{names['id']} AS id",
            index=self.vector_index,
        )

    def _some_names(self) -> str:
        return (
            "MATCH (n:{label}) WITH n LIMIT $limit RETURN "
            "CASE WHEN n.{name} IS NULL OR n.{name} = '' THEN n.{id} ELSE n.{name} END AS name"
        ).format(**self.database.schema.names())

    def _read_names(self, rows: list[dict[str, Any]]) -> None:
        """Settle whether most names hold a capital, which decides what lower-case words of a question can be."""
        if not rows:
            raise self._empty()
        self._capitals = 2 * sum(str(row["name"]).islower() for row in rows) < len(rows)

    def _empty(self) -> EmptyGraphError:
        return EmptyGraphError(
            f"{self.database.uri} holds no node with the label {self.database.schema.label!r}; write a graph with write_graph, "
            "or name the label of yours in GraphSchema(label=...)."
        )


def _one_row(vector: Any) -> Any:
    return None if vector is None else vector.unsqueeze(0) if isinstance(vector, Tensor) else [vector]
