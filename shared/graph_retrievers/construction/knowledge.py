"""A knowledge graph from text: entities and triples that a language model reads out of documents.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-A.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.construction.answer_cache import AnswerCache
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.entity_extraction import (
    Entity,
    canonical_description,
    collect,
    extraction_prompt,
    extraction_schema,
)
from graph_retrievers.construction.entity_resolution import (
    candidate_clusters,
    group_schema,
    majority_type,
    merged_names,
    resolution_prompt,
)
from graph_retrievers.errors import DuplicateNodeError, EmptyGraphError, InvalidArgumentError, LanguageModelError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.signals.embedding import as_embedding, embed_texts
from graph_retrievers.signals.language import as_language_model

__all__ = ["ENTITY_TYPES", "MENTIONS", "PASSAGE", "Failure", "KnowledgeGraph", "KnowledgeGraphBuilder", "canonical_description"]

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")
"""The paper's entity types."""
PASSAGE = "passage"
"""Type of the nodes that hold the documents."""
MENTIONS = "mentions"
"""Relation from a passage to an entity it names."""

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """Something that a language model could not be brought to answer.

    Attributes
    ----------
    stage : {"extraction", "resolution"}
    ids : tuple of str
        The documents that gave no entities, or the names that were left unmerged.
    reason : str
    """

    stage: str
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class KnowledgeGraph:
    """What a :class:`KnowledgeGraphBuilder` made.

    Attributes
    ----------
    graph : CorpusGraph
        First the passages, as they were given, of type "passage"; then the entities in the order of their ids, which are
        "entity:" and the name in lower case. An entity's text is its description (see :func:`canonical_description`);
        an entity that only relations name has neither text nor type.
    aliases : dict of str to str
        Names that entity resolution merged, each with the name it became.
    failures : tuple of Failure
        What is missing: empty if all went well.
    """

    graph: CorpusGraph
    aliases: dict[str, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    def vectors(self, embedding: Any, *, show_progress: bool = False) -> Tensor:
        """Return vectors of the nodes in which entities without a description have none (a row of zeros).

        Such an entity has nothing that a query could be compared to, and a semantic gate stays closed for it. For an index:
        ``GraphIndex.from_graph(built.graph, embedding=model, vectors=built.vectors(model))``.

        Parameters
        ----------
        embedding : object
            Embedding model of nodes and queries.
        show_progress : bool, default False

        Returns
        -------
        Tensor, shape [N, d], float32
        """
        contents = self.graph.contents()
        described = [row for row, text in enumerate(self.graph.texts) if text]
        if not described:
            raise EmptyGraphError("No node of this knowledge graph has a text to embed.")
        found = embed_texts(as_embedding(embedding), [contents[row] for row in described], show_progress)
        vectors = torch.zeros((len(self.graph), found.shape[1]))
        vectors[described] = found
        return vectors


class KnowledgeGraphBuilder:
    """Builds a knowledge graph from documents with a language model.

    Parameters
    ----------
    language_model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    entity_types : sequence of str or None, default the paper's five
        Types an entity may have. None lets the model name them: dates, professions and the like become nodes, which the
        paper names as what its graph lacks.
    resolve : bool, default True
        Whether names that mean one entity are merged.
    merge_titles : bool, default True
        Whether documents that share a title are read in one prompt, as the paper has it. For long documents cut into
        chunks that all bear the document's title, pass False.
    cache : str or Path, optional
        SQLite file that keeps the answers by content hash: a repeated run asks only for what is new or failed.
    attempts : int, default 3
        How often one prompt is asked until the answer keeps to the schema.
    workers : int, default 4
        Prompts under way at a time.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If `entity_types` is empty or names the type of passages, or the model is none.

    Notes
    -----
    Names are compared in lower case with single spaces; a node's title is the spelling met most often. A passage is linked
    to each entity whose name it holds, or, where no passage of a document holds it, each passage of that document is.

    Departures from the published code: every relation is an edge of its own (there, the relations of an ordered pair
    are joined to one text); entity resolution is applied (there, the call is commented out); names keep their spelling
    for display; aliases do not depend on the order in which answers arrive.
    """

    def __init__(
        self,
        language_model: Any,
        *,
        entity_types: Sequence[str] | None = ENTITY_TYPES,
        resolve: bool = True,
        merge_titles: bool = True,
        cache: str | Path | None = None,
        attempts: int = 3,
        workers: int = 4,
        show_progress: bool = False,
    ) -> None:
        if entity_types is not None and (isinstance(entity_types, str) or not entity_types or PASSAGE in entity_types):
            raise InvalidArgumentError(f"entity_types is {entity_types!r}; pass a list of types other than {PASSAGE!r}, or None.")
        self.language_model = as_language_model(language_model)
        self.entity_types = None if entity_types is None else tuple(entity_types)
        self.resolve, self.merge_titles, self.cache = resolve, merge_titles, cache
        self._asking: dict[str, Any] = {"attempts": attempts, "workers": workers, "show_progress": show_progress}

    def build(self, documents: Iterable[Any]) -> KnowledgeGraph:
        """Return the knowledge graph of documents.

        Parameters
        ----------
        documents : iterable of documents
            See :func:`graph_retrievers.construction.documents.to_nodes`.

        Returns
        -------
        KnowledgeGraph
            A document whose extraction fails keeps its passages; ``failures`` names it and the log warns of it.

        Raises
        ------
        EmptyGraphError
            If there is no document.
        LanguageModelError
            If the extraction failed for every document.
        """
        passages = [replace(node, type=PASSAGE) for node in to_nodes(documents)]
        if not passages:
            raise EmptyGraphError("No document was given; a knowledge graph needs at least one.")
        twice = [name for name, count in Counter(node.id for node in passages).items() if count > 1]
        if twice:
            raise DuplicateNodeError(f"Id {twice[0]!r} is given to more than one document; make ids unique.")
        with AnswerCache(self.cache) as cache:
            entities, triples, failures = self._extract(passages, cache)
            aliases: dict[str, str] = {}
            if self.resolve:
                aliases, unmerged = self._resolve(entities, cache)
                failures += unmerged
        for failure in failures:
            _LOGGER.warning("%s failed for %s: %s", failure.stage, ", ".join(failure.ids), failure.reason)
        return KnowledgeGraph(_graph(passages, entities, triples, aliases), _titles(entities, aliases), tuple(failures))

    def _extract(
        self, passages: list[Node], cache: AnswerCache
    ) -> tuple[dict[str, Entity], list[tuple[str, str, str]], list[Failure]]:
        groups: dict[Any, list[Node]] = defaultdict(list)
        for position, node in enumerate(passages):
            groups[node.title if self.merge_titles and node.title else position].append(node)
        prompts = [extraction_prompt(group) for group in groups.values()]
        schema = extraction_schema(self.entity_types)
        answers = cache.ask(self.language_model, prompts, [schema] * len(prompts), description="extracting", **self._asking)
        entities: dict[str, Entity] = {}
        triples: dict[tuple[str, str, str], None] = {}
        failures = []
        for group, answer in zip(groups.values(), answers, strict=True):
            if isinstance(answer, Exception):
                failures.append(Failure("extraction", tuple(node.id for node in group), str(answer)))
                continue
            collect(answer, group, entities, triples)
        if len(failures) == len(groups):
            raise LanguageModelError(f"No document gave an entity; the first failed with: {failures[0].reason}")
        return entities, list(triples), failures

    def _resolve(self, entities: dict[str, Entity], cache: AnswerCache) -> tuple[dict[str, str], list[Failure]]:
        title_of = {key: entity.title for key, entity in entities.items()}
        key_of = {title: key for key, title in title_of.items()}
        clusters = candidate_clusters(
            {title_of[key]: kind for key, entity in entities.items() if (kind := majority_type(entity.types))}
        )
        prompts = []
        for cluster in clusters:
            about = {title: [canonical_description(entities[key_of[title]].descriptions)] for title in cluster}
            prompts.append(resolution_prompt(cluster, majority_type(entities[key_of[cluster[0]]].types), about))
        answers = cache.ask(
            self.language_model, prompts, [group_schema(cluster) for cluster in clusters], description="resolving", **self._asking
        )
        failures = [
            Failure("resolution", tuple(cluster), str(answer))
            for cluster, answer in zip(clusters, answers, strict=True)
            if isinstance(answer, Exception)
        ]
        alias_of = merged_names(clusters, [None if isinstance(answer, Exception) else answer for answer in answers])
        return {key_of[alias]: key_of[name] for alias, name in alias_of.items()}, failures


def _titles(entities: Mapping[str, Entity], aliases: Mapping[str, str]) -> dict[str, str]:
    return {entities[alias].title: entities[name].title for alias, name in sorted(aliases.items())}


def _graph(
    passages: list[Node], entities: Mapping[str, Entity], triples: Iterable[tuple[str, str, str]], aliases: Mapping[str, str]
) -> CorpusGraph:
    kinds: dict[str, list[str]] = defaultdict(list)
    descriptions: dict[str, list[str]] = defaultdict(list)
    mentions: dict[tuple[str, str], None] = {}
    for key, entity in entities.items():
        name = aliases.get(key, key)
        kinds[name] += entity.types
        descriptions[name] += entity.descriptions
        mentions |= {(passage, name): None for passage in entity.passages}
    nodes = []
    for key in sorted(kinds):
        kind = majority_type(kind for kind in kinds[key] if kind != PASSAGE)
        nodes.append(Node(f"entity:{key}", canonical_description(descriptions[key]), entities[key].title, kind))
    # A relation of an entity with itself says nothing; merging names makes such.
    renamed = {(aliases.get(s, s), aliases.get(t, t), relation): None for s, t, relation in triples}
    edges = [(f"entity:{s}", f"entity:{t}", relation) for s, t, relation in renamed if s != t]
    order = {node.id: row for row, node in enumerate(passages)}
    linked = sorted(mentions, key=lambda pair: (order[pair[0]], pair[1]))
    edges += [(passage, f"entity:{key}", MENTIONS) for passage, key in linked]
    return CorpusGraph.from_nodes([*passages, *nodes], edges)
