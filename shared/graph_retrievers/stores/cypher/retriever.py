"""Query-aware spreading activation inside a graph database: one query, one round trip, and the graph stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.graph.names import name_words
from graph_retrievers.operators.operator import positive
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking, extract_entities
from graph_retrievers.operators.spreading.propagation import GatedPropagation
from graph_retrievers.retrievers.retriever import HitList
from graph_retrievers.signals.embedding import as_embedding, check_vectors
from graph_retrievers.stores.cypher.answers import answer
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.query import QueryPlan, query_text
from graph_retrievers.stores.cypher.writer import name_key

__all__ = ["CypherSpreadingActivation"]

# Names of more words are not looked for in a question: the number of its runs of words grows with this.
_LONGEST_NAME = 20
# Names that are looked at, once, to see whether names are capitalised.
_SAMPLE = 10_000


@dataclass(frozen=True)
class _Request:
    """One query as it goes to the database, and what its notes will need."""

    text: str
    parameters: dict[str, Any]
    entities: tuple[str, ...] | None


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

    Raises
    ------
    MissingDatabaseFeatureError
        If the vector index cannot be searched.
    InvalidArgumentError
        For an option outside its range.

    Notes
    -----
    Nothing is filled up from vector search. Names of more than 20 words are not found in a question. The chains are
    searched with the bounds of :class:`~graph_retrievers.operators.spreading.chains.ChainSearch`, in the database; nothing of its
    length grows exponentially.

    A retriever may serve many threads and tasks at a time. Its first question without entities reads up to 10,000 names
    beforehand, to see whether names are capitalised; every other question is one query.
    """

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
        return f"CypherSpreadingActivation({self.database!r}, gate={self._plan.gate!r}, steps={self._plan.steps}, k={self.k})"

    def __enter__(self) -> CypherSpreadingActivation:
        """Return the retriever."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connection to the database."""
        self.close()

    async def __aenter__(self) -> CypherSpreadingActivation:
        """Return the retriever."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connection to the database."""
        await self.aclose()

    def close(self) -> None:
        """Close the connection to the database."""
        self.database.close()

    async def aclose(self) -> None:
        """Close the connection to the database, and what asynchronous calls of this event loop opened."""
        await self.database.aclose()

    def retrieve(self, query: str, k: int | None = None, *, entities: Sequence[str] | None = None, vector: Any = None) -> HitList:
        """Return the hits for one query.

        Parameters
        ----------
        query : str
        k : int, optional
            Entities to return.
        entities : sequence of str, optional
            Names that the question is about, if they are known.
        vector : array-like, shape [d], optional
            The question's vector, if it is known.

        Returns
        -------
        HitList
            Nodes by activation, best first, each with the path that carried it; then the chains, if they are to be hits.

        Raises
        ------
        EmptyGraphError
            If the database holds no node of the schema's label.
        MissingSignalError
            If a vector is needed and there is no embedding model.
        DatabaseError
            If the database fails.
        """
        request = self._request(query, k, entities, vector)
        if "spans" in request.parameters:
            if self._capitals is None:
                self._read_names(self.database.read(self._some_names(), limit=_SAMPLE))
            request.parameters["capitals"] = self._capitals
        rows = self.database.read(request.text, **request.parameters)
        if not rows and not self.database.read(self._some_names(), limit=1):
            raise self._empty()
        return self._answer(request, rows)

    async def aretrieve(
        self, query: str, k: int | None = None, *, entities: Sequence[str] | None = None, vector: Any = None
    ) -> HitList:
        """Return what :meth:`retrieve` does, without blocking the event loop."""
        # Models compute in a thread; the database answers over the event loop.
        request = await asyncio.to_thread(self._request, query, k, entities, vector)
        if "spans" in request.parameters:
            if self._capitals is None:
                self._read_names(await self.database.aread(self._some_names(), limit=_SAMPLE))
            request.parameters["capitals"] = self._capitals
        rows = await self.database.aread(request.text, **request.parameters)
        if not rows and not await self.database.aread(self._some_names(), limit=1):
            raise self._empty()
        return self._answer(request, rows)

    # -- asking -------------------------------------------------------------------------------------------------

    def _request(self, query: str, k: int | None, entities: Sequence[str] | None, vector: Any) -> _Request:
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgumentError(f"The query is {query!r}; a query is a non-empty string.")
        k = self.k if k is None else positive("k", k)
        if entities is not None and (isinstance(entities, str) or not all(isinstance(e, str) and e.strip() for e in entities)):
            raise InvalidArgumentError(f"entities are {entities!r}; expected a list of non-empty strings, or None.")
        if entities is None and self.linking.language_model is not None:
            entities = extract_entities(self.linking.language_model, [query])[0]
        names = None if entities is None else tuple(dict.fromkeys(entities))
        question, budget = self._question(query, vector), self.linking.budget
        parameters: dict[str, Any] = {**self._parameters, "question": question, "k": k, "each": budget}
        if names:
            each = max(1, budget // len(names))
            vectors = [self._vector(name) for name in names] if self.embedding is not None else [None] * len(names)
            parameters |= {
                "each": each,
                "room": budget // each if self.embedding is not None else 0,
                "entities": [
                    {"number": number, "key": name_key(name), "vector": found}
                    for number, (name, found) in enumerate(zip(names, vectors, strict=True))
                ],
            }
        else:
            parameters |= {"spans": [] if names is not None else _spans(query), "fallback": [] if question is None else [question]}
        return _Request(query_text(self.database, self._plan, bool(names)), parameters, names)

    def _answer(self, request: _Request, rows: list[dict[str, Any]]) -> HitList:
        if not rows:
            return HitList((), (*_notes(request, range(len(request.entities or "?"))), "no node is near enough to start from"))
        return answer(rows[0], _notes(request, rows[0]["missing"]), self.chains, self.chain_search, self._plan.passages)

    def _question(self, query: str, vector: Any) -> list[float] | None:
        if vector is not None:
            return _checked([vector], "the question's vector")
        if self.embedding is not None:
            return self._vector(query)
        if self._plan.gate == "cosine":
            raise MissingSignalError("The cosine gate needs the question's vector: pass embedding= or vector=, or gate='uniform'.")
        return None

    def _vector(self, text: str) -> list[float]:
        assert self.embedding is not None
        return _checked([self.embedding.embed_query(text)], f"the vector of {text!r:.60}")

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


def _notes(request: _Request, missing: Sequence[int]) -> tuple[str, ...]:
    """Return how the seeds were found, in the words of the engine."""
    if not missing:
        return ()
    if not request.entities:
        return ("no entity of the graph is named: seeds from vector search of the question",)
    names, room = [repr(request.entities[number]) for number in missing], request.parameters["room"]
    if not room:
        return (f"no node is named {', '.join(names)}; there is no embedding model to search by",)
    note = f"no node is named {', '.join(names[:room])}: seeds from vector search"
    if len(names) > room:
        note += f"; not searched for want of budget: {', '.join(names[room:])}"
    return (note,)


def _spans(question: str) -> list[dict[str, Any]]:
    """Return every run of words of a question that could be a name."""
    words, folded = name_words(question), name_words(question, fold=True)
    return [
        {"key": " ".join(folded[start:stop]), "start": start, "stop": stop, "lower": " ".join(words[start:stop]).islower()}
        for start in range(len(words))
        for stop in range(start + 1, min(start + _LONGEST_NAME, len(words)) + 1)
    ]


def _checked(vectors: list[Any], name: str) -> list[float]:
    found = check_vectors(vectors, 1, name=name)[0]
    if not bool(found.any()):
        raise InvalidVectorError(f"{name} is zero, so that nothing can be compared to it; embed another text.")
    return [float(x) for x in found.tolist()]
