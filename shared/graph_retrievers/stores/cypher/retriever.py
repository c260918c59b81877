"""Query-aware spreading activation inside a graph database: one query for each question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.concurrency import concurrently
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.hits import Hits
from graph_retrievers.hits.of_candidates import NOTHING_FOUND
from graph_retrievers.retrievers.protocol import LISTING_NOTE, NOTHING_PASSES, AsyncRetriever, Call
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.stores.cypher.answers import answer, listed_hits
from graph_retrievers.stores.cypher.database import CypherDatabase, check_database
from graph_retrievers.stores.cypher.predicates import check_dates, filter_predicate
from graph_retrievers.stores.cypher.query import SpreadingQuery
from graph_retrievers.stores.cypher.questions import CypherQuestion, question_notes, read_questions, word_runs
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.systems.spreading.chains import CHAIN_RESULTS, ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.propagation import GATES, GatedPropagation

__all__ = ["CypherSpreadingActivation"]

# Names that are read, once, to see whether names are capitalised; scopes for which that is kept; and queries of a batch that run
# at a time.
_SAMPLE, _SCOPES, _CONCURRENT = 10_000, 1000, 8


class CypherSpreadingActivation(AsyncRetriever):
    """Spreading activation as one Cypher query: seeds, T steps, entities and chains in one round trip.

    Parameters and results are those of :class:`~graph_retrievers.systems.spreading.retriever.SpreadingActivation` on the
    same graph (activations to 1e-6), with these differences.

    Parameters
    ----------
    database : CypherDatabase
    embedding : object, optional
        Embedding model of the nodes' vectors. Not needed if every question has its vector, or the gate is uniform, and all
        entities are found by name.
    steps, decay, threshold, semantics, language_model, chains, chain_search
        As in memory.
    gate : {"cosine", "uniform"}, default "cosine"
    linking : EntityLinking, optional
        As in memory; case is always ignored.
    passages, passage_type
        As in memory, but without a check whether there are nodes of the type.
    vector_index : str, optional
        Vector index for seeds if no name is found. By default all vectors are compared, which is exact.
    k : int, default 30
        Nodes to return; chains follow them only with ``chains="hits"``.
    name : str, optional
        Name in tables; the name of the class by default.

    Raises
    ------
    MissingDatabaseFeatureError
        If the vector index cannot be searched.
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Filters are mappings and become part of the query. They read the properties that
    :func:`~graph_retrievers.stores.cypher.writer.write_graph` creates from metadata. With a vector index and a filter on seeds,
    ten times the candidates are searched, and seeds beyond them are not found. With a `scope`, the names and vectors of its nodes
    are read, without the index, and the three filters apply together with it.

    Results are not filled up from vector search. Names of more than 20 words, and names after the first 200 words of a question,
    are not found. Chains are searched in the database with the bounds of
    :class:`~graph_retrievers.systems.spreading.chains.ChainSearch`.

    Scores of the same question may differ by about 1e-7 between calls, see
    :class:`~graph_retrievers.stores.cypher.database.CypherDatabase`.

    A retriever may be used by many threads and tasks. The first question without entities also reads up to 10,000 names, to
    determine whether names are capitalised.

    Examples
    --------
    >>> from graph_retrievers.stores.cypher import CypherDatabase, CypherSpreadingActivation, write_graph
    >>> database = CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password"))  # doctest: +SKIP
    >>> write_graph(database, index)  # doctest: +SKIP
    >>> hits = CypherSpreadingActivation(database, embedding=model).retrieve("Who knew Ada?")  # doctest: +SKIP
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
        passage_type: str | Sequence[str] = "passage",
        vector_index: str | None = None,
        k: int = 30,
        name: str | None = None,
    ) -> None:
        check_database(database)
        choice("gate", gate, GATES)
        if linking is not None and (language_model is not None or linking.case != "fold"):
            raise InvalidArgumentError("linking= takes a language_model of its own, and must fold case.")
        types = (passage_type,) if isinstance(passage_type, str) else strings("passage_type", passage_type)
        excluded_types = () if passages is None else types
        options: dict[str, Any] = {"gate": gate, "semantics": semantics, "exclude_types": excluded_types}
        propagation = GatedPropagation(steps=steps, decay=decay, threshold=threshold, **options)
        self.database = database
        self.embedding = as_embedding(embedding) if embedding is not None else None
        self.linking = linking or EntityLinking(language_model=language_model)
        self.chains, self.chain_search = choice("chains", chains, CHAIN_RESULTS), chain_search or ChainSearch(semantics=semantics)
        self.vector_index, self.k = vector_index, positive("k", k)
        self.name = name or type(self).__name__
        self._query = SpreadingQuery(
            database,
            propagation,
            self.linking,
            self.k,
            self.chain_search if chains is not None else None,
            vector_index,
            types if passages else (),
        )
        # Whether names have capitals, for each scope; "" stands for no scope.
        self._capitals: dict[str, bool] = {}
        # Fields that have dates.
        self._dated: set[str] = set()
        if vector_index is not None:
            self._check_index()

    def __repr__(self) -> str:
        """Return the database and the settings."""
        propagation = self._query.propagation
        return f"{self.name}({self.database!r}, gate={propagation.gate!r}, steps={propagation.steps}, k={self.k})"

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call: models are called once, the database once per query."""
        questions, query = self._batch(call)
        if self._needs_names(questions, query):
            text, parameters = self._names_query(query)
            self._read_names(query, self.database.read(text, **parameters))
        return [
            self._answer(question, parameters, self.database.read(text, **parameters))
            for text, question, parameters in self._query_parts(questions, query)
        ]

    def list_nodes(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call, by their positions: one query."""
        query = self._filtered(call)
        hits = listed_hits(self.database.read(query.listing, **query.parameters))
        return Hits(hits, (LISTING_NOTE, *(() if hits else (NOTHING_PASSES,))))

    async def asearch(self, call: Call) -> list[Hits]:
        """Return what :meth:`search` returns, without blocking the event loop; up to 8 queries run at a time."""
        call = replace(call, vectors=await self._vectors_of(call.queries, call.vectors))
        # Other models compute in a thread; the database answers over the event loop.
        questions, query = await asyncio.to_thread(self._batch, call)
        if self._needs_names(questions, query):
            text, parameters = self._names_query(query)
            self._read_names(query, await self.database.aread(text, **parameters))

        async def ask(request: tuple[str, CypherQuestion, dict[str, Any]]) -> Hits:
            text, question, parameters = request
            return self._answer(question, parameters, await self.database.aread(text, **parameters))

        return await concurrently(ask, list(self._query_parts(questions, query)), _CONCURRENT)

    def _question_model(self) -> tuple[bool, Any]:
        return True, self.embedding

    def _batch(self, call: Call) -> tuple[list[CypherQuestion], SpreadingQuery]:
        """Return the questions of a call with what models say about them, and their query."""
        query = self._filtered(call)
        models = {"embedding": self.embedding, "language_model": self.linking.language_model}
        return read_questions(call, **models, needs_vectors=self._query.propagation.gate == "cosine"), query

    def _filtered(self, call: Call) -> SpreadingQuery:
        """Return the query with the filters of a call."""
        filters = call.filters
        if "filter" in filters:
            filters = {"seed_filter": filters["filter"], **filters}
        predicates: dict[str, Any] = {
            name: filter_predicate(self.database.schema, condition, name) for name, condition in filters.items()
        }
        scope = predicates.get("scope")
        for name, condition in filters.items():
            whole = scope is None or name == "scope"
            check_dates(self.database, condition, self._dated if whole else set(), None if whole else scope)
        if scope is not None:
            predicates |= {name: scope & predicates.get(name) for name in ("filter", "seed_filter", "traversal_filter")}
        return replace(self._query, k=call.k, **predicates)

    def _needs_names(self, questions: list[CypherQuestion], query: SpreadingQuery) -> bool:
        """Return whether a question must be searched for names, and it is not known yet whether these are capitalised."""
        return query.scope_key not in self._capitals and any(question.entities is None for question in questions)

    def _query_parts(
        self, questions: list[CypherQuestion], query: SpreadingQuery
    ) -> Iterator[tuple[str, CypherQuestion, dict[str, Any]]]:
        """Yield the text of the query of each question, the question, and the parameters of the query."""
        parameters = {**query.parameters, "capitals": self._capitals.get(query.scope_key)}
        for question in questions:
            yield query.text(bool(question.entities)), question, parameters | self._parameters_of(question)

    def _parameters_of(self, question: CypherQuestion) -> dict[str, Any]:
        vector, budget = None if question.vector is None else question.vector.tolist(), self.linking.budget
        if not question.entities:
            return {
                "question": vector,
                "each": budget,
                "spans": [] if question.entities is not None else word_runs(question.text),
                "fallback": [] if vector is None else [vector],
            }
        limit = max(1, budget // len(question.entities))
        vectors = [None] * len(question.entities) if question.entity_vectors is None else question.entity_vectors.tolist()
        return {
            "question": vector,
            "each": limit,
            "room": 0 if question.entity_vectors is None else budget // limit,
            "entities": [
                {"number": number, "key": name_key(name), "vector": name_vector}
                for number, (name, name_vector) in enumerate(zip(question.entities, vectors, strict=True))
            ],
        }

    def _answer(self, question: CypherQuestion, parameters: Mapping[str, Any], rows: list[dict[str, Any]]) -> Hits:
        (row,) = rows
        if not row["filled"]:
            raise self._empty()
        notes = question_notes(question, row["missing"], parameters.get("room", 0))
        entities = {name_key(name) for name in question.entities or ()}
        are_passages = bool(self._query.passage_types)
        hits = answer(row, notes, self.chains, self.chain_search, are_passages, is_named=lambda name: name_key(name) in entities)
        return hits if hits.nodes else Hits(hits, (*notes, NOTHING_FOUND))

    def _check_index(self) -> None:
        names = self._query.names
        self.database.read(
            f"MATCH (n:{names['label']}) WHERE n.{names['embedding']} IS NOT NULL WITH n LIMIT 1 "
            f"CALL db.index.vector.queryNodes($index, 1, n.{names['embedding']}) YIELD node RETURN node.{names['id']} AS id",
            index=self.vector_index,
        )

    def _names_query(self, query: SpreadingQuery) -> tuple[str, dict[str, Any]]:
        """Return a query for names, of the scope if there is one, and its parameters."""
        scope = query.scope
        text = (
            "MATCH (n:{label}){where} WITH n LIMIT $limit RETURN "
            "CASE WHEN n.{name} IS NULL OR n.{name} = '' THEN n.{id} ELSE n.{name} END AS name"
        )
        where = "" if scope is None else f" WHERE {scope.on('n')}"
        parameters = {} if scope is None else scope.parameters
        return text.format(where=where, **query.names), {**parameters, "limit": _SAMPLE}

    def _read_names(self, query: SpreadingQuery, rows: list[dict[str, Any]]) -> None:
        """Keep whether most names contain a capital, which decides whether lower-case words of a question can be names."""
        if not rows and query.scope is None:
            raise self._empty()
        while len(self._capitals) >= _SCOPES:
            self._capitals.pop(next(iter(self._capitals)), None)
        self._capitals[query.scope_key] = 2 * sum(str(row["name"]).islower() for row in rows) < len(rows)

    def _empty(self) -> EmptyGraphError:
        return EmptyGraphError(
            f"{self.database.uri} has no node with the label {self.database.schema.label!r}; write a graph with write_graph, "
            "or set the label in GraphSchema(label=...)."
        )
