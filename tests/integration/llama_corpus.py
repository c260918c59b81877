"""The small linked corpus as LlamaIndex nodes, and the hashed embedding as a LlamaIndex model."""

from contextlib import contextmanager

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode, TransformComponent

from tests.helpers import CORPUS, HashEmbedding, linked_nodes


class HashEmbed(BaseEmbedding):
    """:class:`tests.helpers.HashEmbedding` as LlamaIndex sees an embedding model; keeps the texts it was asked for."""

    _hash: HashEmbedding = PrivateAttr(default_factory=HashEmbedding)
    _texts: list = PrivateAttr(default_factory=list)
    _queries: list = PrivateAttr(default_factory=list)

    @property
    def texts(self):
        return self._texts

    @property
    def queries(self):
        return self._queries

    def _get_query_embedding(self, query):
        self._queries.append(query)
        return self._hash.embed_query(query)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        self._texts.append(text)
        return self._hash.embed_documents([text])[0]


def llama_nodes():
    """Text nodes; what a text links to are its CHILD relationships. The year is kept from embedding models."""
    metadata = {node.id: dict(node.metadata) for node in linked_nodes()}
    return [
        TextNode(
            id_=name,
            text=text,
            metadata={"title": title, "year": metadata[name]["year"], "topic": metadata[name]["topic"]},
            excluded_embed_metadata_keys=["year", "topic"],
            relationships={NodeRelationship.CHILD: [RelatedNodeInfo(node_id=target) for target in links]} if links else {},
        )
        for name, title, text, _, links in CORPUS
    ]


class _Keeper(BaseEventHandler):
    events: list = []

    def handle(self, event, **kwargs):
        self.events.append(event)


@contextmanager
def instrumentation_events():
    """The events that LlamaIndex' instrumentation sees meanwhile."""
    keeper, root = _Keeper(events=[]), get_dispatcher()
    root.add_event_handler(keeper)
    try:
        yield keeper.events
    finally:
        root.event_handlers.remove(keeper)


class Known(TransformComponent):
    """Says what a passage holds, in place of a language model."""

    def __call__(self, nodes, **options):
        for node in nodes:
            head, relation, tail = node.text.rstrip(".").split(" ", 2)
            node.metadata["nodes"] = [EntityNode(name=name) for name in (head, tail)]
            node.metadata["relations"] = [Relation(label=relation, source_id=head, target_id=tail)]
        return nodes
