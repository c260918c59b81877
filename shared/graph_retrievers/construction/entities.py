"""Entities named in texts, as nodes, and the edges from texts to them, without a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from graph_retrievers.arguments import fraction, positive, typed
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.names import NAMED_BY_TEXTS
from graph_retrievers.signals.entities import as_entity_extractor, entity_key, found_names

__all__ = ["EntityMentions"]

_PASSAGE = "passage"
# A name in at most this number of texts is kept, whatever its share of the texts.
_FEW = 10


class EntityMentions(EdgeSpec):
    """Entities named in texts, as nodes, and an edge from each text to those that it names.

    :meth:`nodes` returns documents followed by their entities; pass the same object as an item of ``edges=`` to find the edges.
    Names are distinguished by their words, ignoring case and a leading article.

    Entities have no text, and are marked as names by their metadata field ``named_by_texts``. Retrievers pass through them, and
    return them only if ``types=`` or a ``filter`` includes them; :class:`~graph_retrievers.systems.WalkFusion` ignores them,
    because it follows the names in the texts themselves.

    Parameters
    ----------
    extractor : object, optional
        Finds names: by default by capitals, which needs no model and is made for English and languages that write names in the
        same way (:class:`~graph_retrievers.signals.entities.CapitalizedNames`). Or a spaCy pipeline
        (``pip install 'graph-retrievers[spacy]'``), a GLiNER model (``[gliner]``), a function from a text to its names, or an
        object with a method ``names(texts)``: see :func:`~graph_retrievers.signals.entities.as_entity_extractor`.
    min_texts : int, default 2
        Minimum number of texts that name an entity; an entity in a single text joins nothing.
    max_share : float, default 0.05
        An entity named in more than this share of the texts, and in more than ten, is left out: it would join texts with little in
        common, such as German nouns, whose capitals look like names.
    relation : str, default "mentions"
    entity_type : str, default "entity"
        Node type of entities; not "passage", which is the type of texts.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> names = EntityMentions()
    >>> documents = [Node("a", "A film with Ada Holm."), Node("b", "In Lund, Ada Holm met Cleo Marsh."), Node("c", "A loom.")]
    >>> index = GraphIndex.from_documents(names.nodes(documents), edges=names)
    >>> [(edge.source, edge.relation, edge.target) for edge in index.graph.edges()]
    [('a', 'mentions', 'entity:ada holm'), ('b', 'mentions', 'entity:ada holm')]
    """

    @typed
    def __init__(
        self,
        extractor: Any = None,
        *,
        min_texts: int = 2,
        max_share: float = 0.05,
        relation: str = "mentions",
        entity_type: str = "entity",
    ) -> None:
        self.extractor, self.min_texts = as_entity_extractor(extractor), positive("min_texts", min_texts)
        self.max_share, self.relation, self.entity_type = fraction("max_share", max_share), relation, entity_type
        if entity_type in ("", _PASSAGE):
            raise InvalidArgumentError(f"entity_type is {entity_type!r}; it tells entities from texts, whose type is 'passage'.")

    def nodes(self, documents: Iterable[Any]) -> list[Node]:
        """Return documents as nodes, with the type "passage" if they have none, followed by the entities, by id.

        The id of an entity is "entity:" and its name in lower case, its title the most frequent spelling. Existing entities among
        the documents are not read, and not created again.
        """
        nodes = to_nodes(documents)
        texts = [node for node in nodes if node.type != self.entity_type]
        if nodes and not texts:
            raise NothingToReadError(f"All {len(nodes)} documents have the type of entities, {self.entity_type!r}; none is read.")
        keys = {entity_key(node.title) for node in nodes if node.type == self.entity_type}
        spellings = dict[str, Counter[str]]()
        name_lists = found_names(self.extractor, [node.text for node in texts])
        for name in chain.from_iterable(name_lists):
            spellings.setdefault(entity_key(name), Counter())[name] += 1
        titles = {
            key: min(spellings[key], key=lambda name: (-spellings[key][name], name)) for key in self._joining(name_lists) - keys
        }
        passages = [node if node.type else replace(node, type=_PASSAGE) for node in nodes]
        mark = {NAMED_BY_TEXTS: True}
        return [*passages, *(Node(f"entity:{key}", "", titles[key], self.entity_type, mark) for key in sorted(titles))]

    def _joining(self, name_lists: Sequence[Sequence[str]]) -> set[str]:
        """Return the keys of the names that enough texts, and not too many, have."""
        texts = Counter(key for names in name_lists for key in set(map(entity_key, names)))
        limit = max(_FEW, self.max_share * len(name_lists))
        return {key for key, count in texts.items() if self.min_texts <= count <= limit}

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of texts and of the names in them."""
        entities: dict[str, str] = {}
        for node in corpus.nodes:
            if node.type == self.entity_type:
                entities.setdefault(entity_key(node.title), node.id)
        texts: Sequence[Node] = [node for node in corpus.nodes if node.type != self.entity_type]
        name_lists = found_names(self.extractor, [node.text for node in texts])
        if not entities:
            raise NothingToReadError(self._why_none(name_lists))
        return SpecEdges(
            [
                (node.id, entities[key], self.relation)
                for node, names in zip(texts, name_lists, strict=True)
                for key in map(entity_key, names)
                if key in entities
            ]
        )

    def _why_none(self, name_lists: Sequence[Sequence[str]]) -> str:
        """Return why no entity was made, from the names of the texts."""
        if not any(name_lists):
            return (
                f"No name was found in the {len(name_lists)} texts, so no entities were made. By default capitals tell names; pass "
                "a spaCy pipeline, a GLiNER model or a function as EntityMentions(extractor) for texts without them."
            )
        if not self._joining(name_lists):
            return (
                f"No name stands in {'two' if self.min_texts == 2 else self.min_texts} texts, so that no entity joins any; names "
                f"in more than {self.max_share:.0%} of the texts do not count. Build the index without EntityMentions."
            )
        return (
            f"No node has the type {self.entity_type!r}; make the entities first: names = EntityMentions(), "
            "GraphIndex.from_documents(names.nodes(documents), edges=names)."
        )
