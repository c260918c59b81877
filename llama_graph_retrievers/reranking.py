"""What the node postprocessors that rerank have in common."""

from __future__ import annotations

import logging
from abc import abstractmethod
from copy import deepcopy
from typing import Any, Self

from llama_index.core import instrumentation
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node
from llama_graph_retrievers.nodes import annotated

__all__ = ["RerankingPostprocessor", "as_embedded"]

_logger = logging.getLogger(__name__)
dispatcher = instrumentation.get_dispatcher(__name__)


class RerankingPostprocessor(BaseNodePostprocessor):
    """A postprocessor that gives nodes new scores; a repeated node id counts once, at its first place.

    The input nodes are not changed. Emits ``CBEventType.RERANKING`` and the re-rank events of instrumentation.

    Copies and pickles have all arguments. ``to_dict`` has only the fields, as values for JSON; a warning names the arguments that
    it leaves out, such as an index. Pass these again to ``from_dict(data, index=...)``.
    """

    top_n: int = Field(default=10, ge=1, description="Nodes to return.")
    keep_retrieval_score: bool = Field(default=False, description="Whether to keep the earlier score in metadata.")
    _objects: dict[str, Any] = PrivateAttr(default_factory=dict)
    """Arguments that are not fields, and not None."""

    @classmethod
    def class_name(cls) -> str:
        """Return the class name for ``to_dict``."""
        return cls.__name__

    @abstractmethod
    def _model_name(self) -> str:
        """Return the name of the model for events."""

    @abstractmethod
    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        """Return the places of nodes with distinct ids, best first, and their scores."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidArgumentError(f"{self.class_name()} ranks by a query; pass query_bundle= or query_str=.")
        if not nodes:
            return []
        name = self._model_name()
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query_bundle.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=name))
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            first: dict[str, NodeWithScore] = {}
            for scored in nodes:
                first.setdefault(scored.node.node_id, scored)
            given = list(first.values())
            ranked = [self._scored(given[place], score) for place, score in self._ranked(given, query_bundle)[: self.top_n]]
            event.on_end(payload={EventPayload.NODES: ranked})
        dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _scored(self, given: NodeWithScore, score: float) -> NodeWithScore:
        node = annotated(given.node, {"retrieval_score": given.score}) if self.keep_retrieval_score else given.node
        return NodeWithScore(node=node, score=score)

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the fields and the name of the class; a warning names the arguments that are left out."""
        if self._objects:
            names = " and ".join(self._objects)
            _logger.warning("%s.to_dict() leaves out its %s; pass them to from_dict again.", self.class_name(), names)
        return super().to_dict(**options)

    def __repr__(self) -> str:
        """Return the fields, and the classes of the other arguments."""
        fields = [f"{name}={getattr(self, name)!r}" for name in type(self).model_fields if name != "callback_manager"]
        objects = [f"{name}={type(value).__name__}" for name, value in self._objects.items()]
        return f"{type(self).__name__}({', '.join([*fields, *objects])})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that create the same postprocessor."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {"__dict__": fields | self._objects}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Create the postprocessor from its arguments."""
        type(self).__init__(self, **state["__dict__"])

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a postprocessor with deep copies of the arguments."""
        return type(self)(**deepcopy(self.__getstate__()["__dict__"], memo))


def as_embedded(node: BaseNode) -> Node:
    """Return an engine node whose text is what LlamaIndex embeds for `node`."""
    return Node(node.node_id, node.get_content(metadata_mode=MetadataMode.EMBED), metadata=dict(node.metadata))
