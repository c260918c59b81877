"""Query-aware spreading activation inside a graph database: one query, one round trip, and the graph stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.hits import Hits
from graph_retrievers.operators.operator import positive
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.retrievers.protocol import AsyncRetriever, Call
from graph_retrievers.signals.embedding import as_embedding
from graph_retrievers.stores.cypher.answers import answer
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.filters import filter_predicate
from graph_retrievers.stores.cypher.query import QueryPlan, query_text
from graph_retrievers.stores.cypher.questions import Question, question_notes, read_questions, word_runs
from graph_retrievers.stores.cypher.writer import name_key

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


class CypherSpreadingActivation(AsyncRetriever):
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
        As for the retriever in memory; the gate is "cosine" or "uniform".
    linking : EntityLinking, optional
        As for the retriever in memory; case is always folded.
    chains, chain_search
        As for the retriever in memory: "hits", "path" or None; and the limits of the search.
    passages, passage_type
        As for the retriever in memory, but the types are taken at their word, whether there is a node of the type or not.
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

    inputs = ("entities",)

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

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call: models are asked once, the database query by query."""
        batch = self._batch(call)
        if self._capitals is None and batch.needs_names:
            self._read_names(self.database.read(self._some_names(), limit=_SAMPLE))
        results = []
        for question in batch.questions:
            text, parameters = self._query(batch, question)
            results.append(self._answer(question, parameters, self.database.read(text, **parameters)))
        return results

    async def asearch(self, call: Call) -> list[Hits]:
        """Return what :meth:`search` does, without blocking the event loop; up to 8 queries run at a time."""
        # Models compute in a thread; the database answers over the event loop.
        batch = await asyncio.to_thread(self._batch, call)
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

    def _batch(self, call: Call) -> _Batch:
        """Return the questions of a call with what models say about them, and the plan of their queries."""
        parameters: dict[str, Any] = {**self._parameters, "k": call.k}
        predicates: dict[str, Any] = {}
        for name, condition in call.filters.items():
            predicates[name] = filter_predicate(self.database.schema, condition, name)
            parameters |= predicates[name].parameters
        questions = read_questions(
            call,
            embedding=self.embedding,
            language_model=self.linking.language_model,
            needs_vectors=self._plan.gate == "cosine",
        )
        return _Batch(questions, replace(self._plan, **predicates), parameters)

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
