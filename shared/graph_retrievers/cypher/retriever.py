"""Query-aware spreading activation inside a graph database: one query, one round trip, and the graph stays where it is."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from graph_retrievers.cypher.database import CypherDatabase
from graph_retrievers.cypher.query import QueryPlan, query_text
from graph_retrievers.cypher.writer import name_key
from graph_retrievers.errors import (
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingSignalError,
)
from graph_retrievers.graph.names import name_words
from graph_retrievers.operators.chains import ChainSearch
from graph_retrievers.operators.entity_linking import EntityLinking, extract_entities
from graph_retrievers.operators.operator import positive
from graph_retrievers.operators.spreading_activation import GatedPropagation
from graph_retrievers.retrievers.retriever import Hit, HitList, Path
from graph_retrievers.signals.embedding import as_embedding, check_vectors

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
    """Spreading activation as one Cypher query: seeds, T steps, chains and entities in one round trip.

    Parameters
    ----------
    database : CypherDatabase
    embedding : object, optional
        Embedding model of the nodes' vectors. Not needed with the uniform gate and entities that are all found by name, or
        where each question comes with its vector and its entities are found.
    language_model : object, optional
        Extracts the entities of a question where the caller gives none; without it, names of nodes that stand in the
        question are taken.
    steps, decay, threshold, gate, semantics
        T = 3, alpha = 0.7, tau = 0.01, "cosine" (or "uniform"), "set" (or "rows"): as for
        :class:`~graph_retrievers.operators.spreading_activation.GatedPropagation`.
    budget : int, default 5
        Nodes that vector search may bring for one question.
    fallback_score : {"cosine", "index"}, default "cosine"
        See :class:`~graph_retrievers.operators.entity_linking.EntityLinking`.
    vector_index : str, optional
        Vector index for fallback seeds. By default all vectors are compared, which needs no index and is exact.
    chains : int, default 30
        Chains to return; 0 for none.
    chain_length, dedupe, width
        4, "after_limit" (or "before_limit"), 4096: as for :class:`~graph_retrievers.operators.chains.ChainSearch`.
    k : int, default 30
        Entities to return.

    Raises
    ------
    MissingDatabaseFeatureError
        If the vector index cannot be searched.
    InvalidArgumentError
        For an option outside its range.

    Notes
    -----
    The results are those of the engine's spreading activation on the same graph: seeds, activations to 1e-6, chains.
    """

    def __init__(
        self,
        database: CypherDatabase,
        *,
        embedding: Any = None,
        language_model: Any = None,
        steps: int = 3,
        decay: float = 0.7,
        threshold: float = 0.01,
        gate: str = "cosine",
        semantics: str = "set",
        budget: int = 5,
        fallback_score: str = "cosine",
        vector_index: str | None = None,
        chains: int = 30,
        chain_length: int = 4,
        dedupe: str = "after_limit",
        width: int = 4096,
        k: int = 30,
    ) -> None:
        if not isinstance(database, CypherDatabase):
            raise InvalidArgumentError(f"Expected a CypherDatabase, got {type(database).__name__}; open one first.")
        if gate not in ("cosine", "uniform"):
            raise InvalidArgumentError(f"Unknown gate {gate!r}; choose 'cosine' or 'uniform'.")
        # The operators check what they share with this class, in the same words.
        GatedPropagation(steps=steps, decay=decay, threshold=threshold, gate=gate, semantics=semantics)
        self._linking = EntityLinking(language_model=language_model, budget=budget, fallback_score=fallback_score)
        self.database = database
        self.embedding = as_embedding(embedding) if embedding is not None else None
        self.decay, self.threshold, self.budget = float(decay), float(threshold), budget
        self.vector_index, self.width, self.k = vector_index, width, positive("k", k)
        if isinstance(chains, bool) or not isinstance(chains, int) or chains < 0:
            raise InvalidArgumentError(f"chains must be an integer of at least 0, got {chains!r}.")
        ChainSearch(max(chains, 1), length=chain_length, dedupe=dedupe, width=width)
        self.chains = chains
        self._plan = QueryPlan(
            steps=steps,
            gate=gate,
            semantics=semantics,
            fallback_score=fallback_score,
            chain_length=chain_length if chains else 0,
            dedupe=dedupe,
            has_index=vector_index is not None,
        )
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
        self, query: str, k: int | None = None, *, entities: Sequence[str] | None = None, vector: Any = None
    ) -> HitList:
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
            Entities by activation, best first, each with the path that carried it; then the chains, of kind "chain".

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
        return self._hits(request, rows)

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
        return self._hits(request, rows)

    # -- asking -------------------------------------------------------------------------------------------------

    def _request(self, query: str, k: int | None, entities: Sequence[str] | None, vector: Any) -> _Request:
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgumentError(f"The query is {query!r}; a query is a non-empty string.")
        k = self.k if k is None else positive("k", k)
        if entities is not None and (isinstance(entities, str) or not all(isinstance(e, str) and e.strip() for e in entities)):
            raise InvalidArgumentError(f"entities are {entities!r}; expected a list of non-empty strings, or None.")
        if entities is None and self._linking.language_model is not None:
            entities = extract_entities(self._linking.language_model, [query])[0]
        names = None if entities is None else tuple(dict.fromkeys(entities))
        question = self._question(query, vector)
        parameters: dict[str, Any] = {
            "question": question,
            "decay": self.decay,
            "threshold": self.threshold,
            "k": k,
            "each": self.budget,
            "index": self.vector_index,
            "chains": self.chains,
            "width": self.width,
        }
        if names:
            each = max(1, self.budget // len(names))
            vectors = [self._vector(name) for name in names] if self.embedding is not None else [None] * len(names)
            parameters |= {
                "each": each,
                "room": self.budget // each if self.embedding is not None else 0,
                "entities": [
                    {"number": number, "key": name_key(name), "vector": found}
                    for number, (name, found) in enumerate(zip(names, vectors, strict=True))
                ],
            }
        else:
            parameters |= {"spans": [] if names is not None else _spans(query), "fallback": [] if question is None else [question]}
        return _Request(query_text(self.database, self._plan, bool(names)), parameters, names)

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

    # -- answering ----------------------------------------------------------------------------------------------

    def _hits(self, request: _Request, rows: list[dict[str, Any]]) -> HitList:
        if not rows:
            return HitList((), (*_notes(request, range(len(request.entities or "?"))), "no node is near enough to start from"))
        row = rows[0]
        relations = _relations(row["links"])
        hits = [_entity_hit(entity, relations) for entity in row["entities"]]
        notes = _notes(request, row["missing"])
        if self.chains:
            chains = row["chains"]
            floor = chains[-1]["weight"] if len(chains) == self.chains else -math.inf
            if any(bound is not None and bound >= floor for bound in row["cut"]):
                notes += (f"the chains may not be the best: more than {self.width} prefixes were under way",)
            hits += [_chain_hit(chain) for chain in _distinct(chains)]
        return HitList(hits, notes)


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


def _distinct(chains: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the chains, best first, without those that say nothing new.

    Of chains with the same nodes, in the same or the reverse order, the first stays. A chain that is a prefix of a longer
    one, or the reverse of its end, is absorbed by it.
    """
    first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    absorbed = set()
    for chain in chains:
        path = tuple(node["id"] for node in chain["nodes"])
        if path not in first and path[::-1] not in first:
            first[path] = chain
        absorbed |= {way[:size] for way in (path, path[::-1]) for size in range(2, len(way))}
    return [chain for path, chain in first.items() if path not in absorbed]


def _step_order(step: Mapping[str, Any]) -> tuple[float, str, bool]:
    return (math.inf if step["position"] is None else step["position"], step["relation"], not step["forward"])


def _chain_hit(chain: Mapping[str, Any]) -> Hit:
    relations, forward = (tuple(step[key] for step in chain["steps"]) for key in ("relation", "forward"))
    ids = tuple(str(node["id"]) for node in chain["nodes"])
    names = tuple(str(node["name"] or node["id"]) for node in chain["nodes"])
    return Hit(
        id=" | ".join(ids),
        text=str(Path(names, relations, forward)),
        score=chain["weight"],
        operator=ChainSearch.name,
        path=Path(ids, relations, forward),
        kind="chain",
    )


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


def _relations(links: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return the first relationship from one node to another, as (relation, forward)."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    for link in sorted(links, key=_step_order):
        found.setdefault((link["near"], link["far"]), (link["relation"], link["forward"]))
    return found


def _entity_hit(entity: Mapping[str, Any], relations: Mapping[tuple[str, str], tuple[str, bool]]) -> Hit:
    trail = entity["trail"]
    steps = [relations.get(pair, ("", True)) for pair in zip(trail, trail[1:], strict=False)]
    return Hit(
        id=str(entity["id"]),
        text=str(entity["text"] or ""),
        score=entity["r"],
        operator=EntityLinking.name if len(trail) == 1 else GatedPropagation.name,
        path=Path(tuple(map(str, trail)), tuple(relation for relation, _ in steps), tuple(forward for _, forward in steps)),
        title=str(entity["name"] or ""),
        type=str(entity["type"] or ""),
        metadata=json.loads(entity["metadata"]) if entity["metadata"] else {},
    )
