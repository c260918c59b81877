"""Entities that texts name, as nodes, and the edges from texts to them, without a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from graph_retrievers.arguments import positive, typed
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.signals.entities import as_entity_extractor, entity_key

__all__ = ["EntityMentions"]


class EntityMentions(EdgeSpec):
    """Entities that texts name, as nodes, and an edge from each text to those that it names.

    :meth:`nodes` returns documents with the entities behind them, and as an item of ``edges=`` the same object finds the edges.
    Names are told apart by their words, case and a leading article aside.

    Parameters
    ----------
    extractor : object, optional
        What finds names: by default capitals do, which needs no model and is made for English and languages that write names in the
        same way (:class:`~graph_retrievers.signals.entities.CapitalizedNames`). Or a spaCy pipeline
        (``pip install 'graph-retrievers[spacy]'``), a GLiNER model (``[gliner]``), a function from a text to its names, or an
        object with a method ``names(texts)``: see :func:`~graph_retrievers.signals.entities.as_entity_extractor`.
    min_texts : int, default 2
        Texts that name an entity, at least: one that a single text names joins nothing.
    relation : str, default "mentions"
    entity_type : str, default "entity"
        Node type of entities.

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
        self, extractor: Any = None, *, min_texts: int = 2, relation: str = "mentions", entity_type: str = "entity"
    ) -> None:
        self.extractor, self.min_texts = as_entity_extractor(extractor), positive("min_texts", min_texts)
        self.relation, self.entity_type = relation, entity_type
        if not entity_type:
            raise InvalidArgumentError("entity_type must not be empty: it tells entities from texts.")

    def nodes(self, documents: Iterable[Any]) -> list[Node]:
        """Return documents as nodes, those without a type of the type "passage", and behind them the entities, by id.

        The id of an entity is "entity:" and its name in small letters, its title the most frequent spelling. Entities among the
        documents are not read, and none is made twice.
        """
        given = to_nodes(documents)
        told = [node for node in given if node.type != self.entity_type]
        known = {entity_key(node.title) for node in given if node.type == self.entity_type}
        texts, spelled = Counter[str](), dict[str, Counter[str]]()
        for names in self.extractor.names([node.text for node in told]):
            texts.update({entity_key(name) for name in names})
            for name in names:
                spelled.setdefault(entity_key(name), Counter())[name] += 1
        wanted = sorted(key for key, count in texts.items() if count >= self.min_texts and key not in known)
        titles = {key: min(spelled[key], key=lambda name: (-spelled[key][name], name)) for key in wanted}
        passages = [node if node.type else replace(node, type="passage") for node in given]
        return [*passages, *(Node(f"entity:{key}", "", title, self.entity_type) for key, title in titles.items())]

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order of texts and of the names in them."""
        entities: dict[str, str] = {}
        for node in corpus.nodes:
            if node.type == self.entity_type:
                entities.setdefault(entity_key(node.title), node.id)
        if not entities:
            raise NothingToReadError(
                f"No node has the type {self.entity_type!r}; make the entities first: names = EntityMentions(), "
                "GraphIndex.from_documents(names.nodes(documents), edges=names)."
            )
        told: Sequence[Node] = [node for node in corpus.nodes if node.type != self.entity_type]
        found = self.extractor.names([node.text for node in told])
        return Found(
            [
                (node.id, entities[key], self.relation)
                for node, names in zip(told, found, strict=True)
                for key in map(entity_key, names)
                if key in entities
            ]
        )
