"""How retrievers are made from LlamaIndex nodes or a document store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from torch import Tensor

from graph_retrievers.construction.edges import Relationships
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding import as_embedding, check_vectors, embed_texts
from llama_graph_retrievers.query_vectors import default_embed_model

__all__ = ["FromNodes", "node_vectors"]


class FromNodes(ABC):
    """Makes a retriever from an index, from nodes or from a document store."""

    embeds_nodes: ClassVar[bool] = True
    """Whether an index made on the way is to have vectors even if the nodes bring none."""

    @classmethod
    @abstractmethod
    def from_index(cls, index: GraphIndex, **options: Any) -> Self:
        """Return a retriever on an index."""

    @classmethod
    def from_defaults(
        cls,
        index: GraphIndex | None = None,
        nodes: Sequence[BaseNode] | None = None,
        docstore: BaseDocumentStore | None = None,
        *,
        embed_model: Any = None,
        edges: Any = None,
        relevance: Any = None,
        device: str | torch.device | None = None,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Return a retriever on an index, or over nodes whose index is built on the way.

        Parameters
        ----------
        index : GraphIndex, optional
        nodes : sequence of BaseNode, optional
        docstore : BaseDocumentStore, optional
            Exactly one of the three.
        embed_model : BaseEmbedding, optional
            Embeds nodes that bring no ``embedding``, and queries. ``Settings.embed_model`` is asked only where
            vectors are needed and this is None.
        edges : edges, edge specifications or callables, optional
            What links the nodes (see :func:`graph_retrievers.construction.edges.build_edges`); by default their own
            relationships. Not for an index, which has its edges.
        relevance : object, optional
            Relevance model, such as the name or folder of a cross-encoder; by default the index's own, or the dot
            product of the vectors.
        device : str or torch.device, optional
            Where the index lives; the CPU, or where a given index is, by default.
        show_progress : bool, default False
            Progress bars while nodes are embedded and indexed.
        **options
            Keywords of the class.

        Raises
        ------
        InvalidArgumentError
            If not exactly one of the three is given.
        EmptyGraphError
            If there are no nodes.

        Notes
        -----
        Vectors are those LlamaIndex makes: a node's own ``embedding``, or the embedding of its content with the
        metadata meant for embedding (``MetadataMode.EMBED``). BM25 and relevance models read the title and the plain
        text, as on every other index.
        """
        given = {"index": index, "nodes": nodes, "docstore": docstore}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            raise InvalidArgumentError(f"Pass exactly one of index=, nodes= and docstore=; got {' and '.join(names) or 'none'}.")
        if index is not None:
            if edges is not None:
                raise InvalidArgumentError("edges= goes with nodes= or docstore=; this index has its edges.")
            index = index.with_models(relevance=relevance) if relevance is not None else index
            index = index.to(device) if device is not None else index
            return cls.from_index(index, embed_model=embed_model, **options)
        listed = list(nodes) if nodes is not None else list(docstore.docs.values()) if docstore is not None else []
        if not listed:
            raise EmptyGraphError(f"{names[0]} is empty: an index needs at least one node.")
        for place, node in enumerate(listed):
            if not isinstance(node, BaseNode):
                raise InvalidArgumentError(f"Node {place} is a {type(node).__name__}; expected a BaseNode, such as a TextNode.")
        vectors = None
        if cls.embeds_nodes or all(node.embedding is not None for node in listed):
            vectors = node_vectors(listed, embed_model, show_progress)
        index = GraphIndex.from_documents(
            listed,
            edges=[Relationships()] if edges is None else edges,
            device=device,
            embedding=embed_model if vectors is not None else None,
            vectors=vectors,
            relevance=relevance,
            show_progress=show_progress,
        )
        options.setdefault("nodes", docstore if docstore is not None else listed)
        return cls.from_index(index, embed_model=embed_model, **options)


def node_vectors(nodes: Sequence[BaseNode], embed_model: Any, show_progress: bool = False) -> Tensor:
    """Return one vector a node: its own ``embedding``, or its content's (``MetadataMode.EMBED``).

    Parameters
    ----------
    nodes : sequence of BaseNode, length n
    embed_model : BaseEmbedding or None
        ``Settings.embed_model`` if None; not asked where all nodes have vectors.
    show_progress : bool, default False

    Returns
    -------
    Tensor, shape [n, d], float32
    """
    bare = [place for place, node in enumerate(nodes) if node.embedding is None]
    vectors: list[Any] = [node.embedding for node in nodes]
    if bare:
        model = as_embedding(embed_model if embed_model is not None else default_embed_model())
        texts = [nodes[place].get_content(metadata_mode=MetadataMode.EMBED) for place in bare]
        for place, vector in zip(bare, embed_texts(model, texts, show_progress).tolist(), strict=True):
            vectors[place] = vector
    return check_vectors(vectors, len(nodes))
