"""A knowledge graph from text: a language model extracts entities and triples from documents.

Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section III-A.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
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
    good_parts,
)
from graph_retrievers.construction.entity_resolution import (
    candidate_clusters,
    group_schema,
    majority_type,
    merged_names,
    resolution_prompt,
)
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.errors import DuplicateNodeError, EmptyGraphError, InvalidArgumentError, LanguageModelError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.signals.language import as_language_model
from graph_retrievers.signals.vector_cache import embed_corpus

__all__ = ["ENTITY_TYPES", "MENTIONS", "PASSAGE", "Failure", "KnowledgeGraph", "KnowledgeGraphBuilder", "canonical_description"]

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")
"""The paper's entity types."""
PASSAGE = "passage"
"""Type of the nodes with the documents."""
MENTIONS = "mentions"
"""Relation from a passage to an entity that it names."""

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A prompt that the language model did not answer.

    `stage` is "extraction" or "resolution"; `ids` are the documents without entities, or the names that were not merged.
    """

    stage: str
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class KnowledgeGraph:
    """The result of a :class:`KnowledgeGraphBuilder`.

    Its `graph` has first the passages in the given order, of type "passage"; then the entities, sorted by id, which is "entity:"
    and the name in lower case. The text of an entity is its description (see :func:`canonical_description`); an entity that
    occurs only in relations has neither text nor type. `aliases` maps names that entity resolution merged to their new name.
    """

    graph: CorpusGraph
    aliases: dict[str, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    def vectors(self, embedding: Any, *, show_progress: bool = False) -> Tensor:
        """Return vectors of the nodes: Tensor, shape [N, d], float32; a row of zeros for entities without a description.

        Such an entity has no text to compare with a query, so a semantic gate excludes it. `embedding` is the model of nodes and
        queries. For an index: ``GraphIndex.from_graph(built.graph, embedding=model, vectors=built.vectors(model))``.
        """
        contents = self.graph.contents()
        described = [row for row, text in enumerate(self.graph.texts) if text]
        if not described:
            raise EmptyGraphError("No node of this knowledge graph has a text to embed.")
        found = embed_corpus(embedding, [contents[row] for row in described], show_progress=show_progress)
        vectors = torch.zeros((len(self.graph), found.shape[1]))
        vectors[described] = found
        return vectors


class KnowledgeGraphBuilder:
    """Build a knowledge graph from documents with a language model.

    Raises InvalidArgumentError if `entity_types` is empty or contains "passage", or the model is not a language model.

    Parameters
    ----------
    language_model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    entity_types : sequence of str or None, default the paper's five
        Types of entities. If None, the model chooses them, so that dates, professions and the like become nodes, which the paper
        names as missing in its graph.
    resolve : bool, default True
        Whether to merge names of the same entity.
    merge_titles : bool, default True
        Whether documents with the same title are read in one prompt, as in the paper. Pass False for long documents cut
        into chunks that have the document's title.
    cache : str or Path, optional
        SQLite file that stores the answers by content hash, so that a repeated run sends only new or failed prompts.
    attempts : int, default 3
        Maximum number of calls until an answer satisfies the schema.
    workers : int, default 4
        Number of concurrent prompts.
    strict : bool, default False
        Whether a document whose extraction failed, or a wrong entity or relation in an answer, is an error that names all of them.
        By default they are left out, and a warning names the first ten.
    show_progress : bool, default False

    Notes
    -----
    Names are compared in lower case with single spaces; a node's title is the most frequent spelling. A passage is linked to
    each entity whose name it contains; if no passage of a document contains the name, all passages of that document are linked.

    Differences from the published code: every relation is a separate edge (there, the relations of an ordered pair are joined to
    one text); entity resolution is applied (there, the call is commented out); titles keep their spelling; aliases do not depend
    on the order in which answers arrive.

    Examples
    --------
    >>> import json
    >>> ada = {"name": "Ada", "type": "PERSON", "description": "A mathematician."}
    >>> answer = json.dumps({"entities": [ada], "relations": [{"source": "Ada", "relation": "knew", "target": "Babbage"}]})
    >>> built = KnowledgeGraphBuilder(lambda prompt: answer).build([Node("1", "Ada knew Babbage.")])
    >>> [(edge.source, edge.relation, edge.target) for edge in built.graph.edges()][0]
    ('entity:ada', 'knew', 'entity:babbage')
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
        strict: bool = False,
        show_progress: bool = False,
    ) -> None:
        if entity_types is not None and (isinstance(entity_types, str) or not entity_types or PASSAGE in entity_types):
            raise InvalidArgumentError(f"entity_types is {shown(entity_types)}; pass types other than {PASSAGE!r}, or None.")
        self.language_model = as_language_model(language_model)
        self.entity_types = None if entity_types is None else tuple(entity_types)
        self.resolve, self.merge_titles, self.cache, self.strict = resolve, merge_titles, cache, strict
        self._asking: dict[str, Any] = {"attempts": attempts, "workers": workers, "show_progress": show_progress}

    def build(self, documents: Iterable[Any]) -> KnowledgeGraph:
        """Return the knowledge graph of documents.

        `documents` are those of :func:`graph_retrievers.construction.documents.to_nodes`. If the extraction of a document fails,
        its passages are kept, and ``failures`` and a warning name it. If no attempt gives an answer that satisfies the schema, the
        entities and relations that do are taken from the last answer with any, and the warning names the others.

        Raises EmptyGraphError if there is no document, DuplicateNodeError if two have the same id, and LanguageModelError if the
        extraction failed for every document, or with `strict` something was left out.
        """
        passages = [replace(node, type=PASSAGE) for node in to_nodes(documents)]
        if not passages:
            raise EmptyGraphError("There are no documents; a knowledge graph needs at least one.")
        twice = [name for name, count in Counter(node.id for node in passages).items() if count > 1]
        if twice:
            raise DuplicateNodeError(f"{twice[0]!r} is the id of more than one document; make ids unique.")
        left = Omissions("the answers of the language model", self.strict)
        with closing(AnswerCache(self.cache)) as cache:
            entities, triples, failures = self._extract(passages, cache, left)
            aliases: dict[str, str] = {}
            if self.resolve:
                aliases, unmerged = self._resolve(entities, cache)
                failures += unmerged
        for failure in failures:
            left.add(f"{failure.stage} failed for {', '.join(failure.ids)}", failure.reason)
        left.tell(_LOGGER, error=LanguageModelError)
        titles = {entities[alias].title: entities[name].title for alias, name in sorted(aliases.items())}
        return KnowledgeGraph(_graph(passages, entities, triples, aliases), titles, tuple(failures))

    def _extract(
        self, passages: list[Node], cache: AnswerCache, left: Omissions
    ) -> tuple[dict[str, Entity], list[tuple[str, str, str]], list[Failure]]:
        groups: dict[Any, list[Node]] = defaultdict(list)
        for position, node in enumerate(passages):
            groups[node.title if self.merge_titles and node.title else position].append(node)
        prompts = [extraction_prompt(group) for group in groups.values()]
        schema = extraction_schema(self.entity_types)
        options = {**self._asking, "repair": lambda answer: good_parts(answer, self.entity_types)}
        answers = cache.ask(self.language_model, prompts, [schema] * len(prompts), description="extracting", **options)
        entities: dict[str, Entity] = {}
        triples: dict[tuple[str, str, str], None] = {}
        failures = []
        for group, answer in zip(groups.values(), answers, strict=True):
            if isinstance(answer, Exception):
                failures.append(Failure("extraction", tuple(node.id for node in group), str(answer)))
                continue
            for item in answer.get("left_out", ()):
                left.add(f"{item} in the answer for {', '.join(node.id for node in group)}", "it does not satisfy the schema")
            collect(answer, group, entities, triples)
        if len(failures) == len(groups):
            raise LanguageModelError(f"The extraction failed for every document; the first error: {failures[0].reason}")
        return entities, list(triples), failures

    def _resolve(self, entities: dict[str, Entity], cache: AnswerCache) -> tuple[dict[str, str], list[Failure]]:
        key_of = {entity.title: key for key, entity in entities.items()}
        type_of = {entity.title: kind for entity in entities.values() if (kind := majority_type(entity.types))}
        about = {entity.title: canonical_description(entity.descriptions) for entity in entities.values()}
        clusters = candidate_clusters(type_of)
        prompts = [resolution_prompt(cluster, type_of[cluster[0]], about) for cluster in clusters]
        schemas = [group_schema(cluster) for cluster in clusters]
        answers = cache.ask(self.language_model, prompts, schemas, description="resolving", **self._asking)
        failed = [(cluster, answer) for cluster, answer in zip(clusters, answers, strict=True) if isinstance(answer, Exception)]
        failures = [Failure("resolution", tuple(cluster), str(answer)) for cluster, answer in failed]
        alias_of = merged_names(clusters, [None if isinstance(answer, Exception) else answer for answer in answers])
        return {key_of[alias]: key_of[name] for alias, name in alias_of.items()}, failures


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
    # Merging names can make relations of an entity with itself; these are dropped.
    renamed = {(aliases.get(s, s), aliases.get(t, t), relation): None for s, t, relation in triples}
    edges = [(f"entity:{s}", f"entity:{t}", relation) for s, t, relation in renamed if s != t]
    order = {node.id: row for row, node in enumerate(passages)}
    linked = sorted(mentions, key=lambda pair: (order[pair[0]], pair[1]))
    edges += [(passage, f"entity:{key}", MENTIONS) for passage, key in linked]
    return CorpusGraph.from_nodes([*passages, *nodes], edges)
