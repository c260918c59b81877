"""G-RAG: reranking over a document graph (Dong et al., "Don't Forget to Connect!", 2024)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor

from graph_retrievers.arguments import positive, seed_number
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.checkpoint import check_trained, checkpoint_folder, load_checkpoint, load_part, save_checkpoint
from graph_retrievers.learning.state import clear_state
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.signatures import published_settings
from graph_retrievers.retrievers.untrained import Untrained, refuse_untrained
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.first_stage import first_stage, reranked, untrained_first
from graph_retrievers.systems.grag import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork
from graph_retrievers.systems.grag.model import network_of_config
from graph_retrievers.systems.grag.training import fit_document_graph
from graph_retrievers.systems.splits import labelled_queries

__all__ = ["CHECKPOINT_FILES", "GRAG", "fit_grag", "grag_reranker"]

_PART, _FIRST, _DEPTH = "g-rag", "walk-fusion", 100
_DEFAULTS: dict[str, Any] = {
    "first": None,
    "first_settings": {},
    "depth": _DEPTH,
    "together": False,
    "parser": None,
    "embedding": None,
}
_SETTINGS: dict[str, tuple[type, ...]] = {
    "network": (dict,),
    "first": (str, type(None)),
    "first_settings": (dict,),
    "depth": (int,),
    "together": (bool,),
    "parser": (str, type(None)),
    "embedding": (str, type(None)),
}

CHECKPOINT_FILES = (f"{_PART}.safetensors", f"{_PART}.json")
"""The files of a checkpoint."""

Network = EvidenceNetwork | DocumentGraphNetwork

_UNTRAINED = Untrained("network", "documents are scored by rank, similarity and concepts of the question, without edges")
_RANDOM = Untrained("network", "documents are ranked at random")
_logger = logging.getLogger(__name__)


class GRAG(Retriever):
    r"""A first search, then reranking by a graph neural network over the graph of the concepts that the documents share.

    .. math:: O_{vs} \to O_{gm}

    Documents and question are parsed into meaning graphs, and common concepts and relations join the documents. The network is
    trained on questions with known answers (``graph-retrievers fit g-rag``). Without a checkpoint no edge is used: documents are
    scored by rank, similarity and the concepts that they share with the question.

    Parameters
    ----------
    index : GraphIndex
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``.
    network : EvidenceNetwork, DocumentGraphNetwork or mapping, optional
        A network, which you have trained, is used instead of a checkpoint. A mapping has the keywords of the
        :class:`~graph_retrievers.systems.grag.model.DocumentGraphNetwork` with which the checkpoint must have been trained.
    first : str or Operator, optional
        First search: a name from :func:`~graph_retrievers.systems.registry.retriever_names`, or an operator. By default that of
        the checkpoint's training, ``"walk-fusion"`` without a checkpoint.
    depth : int, optional
        Nodes to find and to rerank. By default the number that the checkpoint was trained with, or 100 without a checkpoint.
    parser : MeaningParser, MeaningCache, callable or None
        See :class:`~graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.
    **options
        Keywords of :class:`Retriever`.

    Raises
    ------
    InvalidArgumentError
        If both a checkpoint and a network are given, or keywords of a network without a checkpoint, or the checkpoint was trained
        with another parser, embedding model or network, or with a first operator that is not given.

    Notes
    -----
    Documents are parsed when first found. To parse a corpus in advance, or to keep its graphs on disk, pass a
    :class:`~graph_retrievers.signals.meaning_cache.MeaningCache` and call its
    ``parse(index.graph.contents(), show_progress=True)``.

    References
    ----------
    Dong et al., "Don't Forget to Connect! Improving RAG with Graph-based Reranking", 2024.

    Examples
    --------
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0], [0.9, 0.1], [0.8, 0.2]])
    >>> [hit.text for hit in GRAG(index, first="vector").retrieve("Who wrote programs?", vector=[1, 0])]
    ['Ada wrote programs.', 'The mill bought engines.', 'Ada knew Babbage.']
    """

    PUBLISHED = {
        "network": {"layer": "gcn", "hidden": 8, "layers": 2, "dropout": 0.1, "paths": True},
        "first": "vector",
        "depth": 100,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        checkpoint: str | Path | None = None,
        network: Network | Mapping[str, Any] | None = None,
        first: str | Operator | None = None,
        depth: int | None = None,
        parser: Any = None,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        if isinstance(network, Mapping):
            _check_network(network, checkpoint)
            network = None
        settings: Mapping[str, Any] = {}
        if first is None:
            config: dict[str, Any] = {"first": _FIRST, "first_settings": {}} if checkpoint is None else _read(checkpoint)[1]
            first, settings = config["first"], config["first_settings"]
        if first is None:
            raise InvalidArgumentError(f"{checkpoint} was trained behind an operator without a name; pass it as first=.")
        reranker = _reranker(checkpoint, network, parser, depth, index.embedding_name)
        super().__init__(index, partial(reranked, first=first, settings=settings, reranker=reranker), **options)
        self._untrained = (*_untrained(checkpoint, network), *untrained_first(index, first, settings))


def _check_network(settings: Mapping[str, Any], checkpoint: str | Path | None) -> None:
    """Raise InvalidArgumentError unless a checkpoint has a network that was trained with some settings."""
    if checkpoint is None:
        return refuse_untrained("G-RAG", f"the settings of a network ({shown(dict(settings))})", "fit g-rag --published")
    trained = load_checkpoint(checkpoint, _PART)[1].get("network")
    trained = trained if isinstance(trained, Mapping) else {}
    wanted = {"kind": DocumentGraphNetwork.kind, **settings}
    check_trained(trained, wanted, f"{checkpoint} was trained with a network of", "fit g-rag")


def grag_reranker(
    checkpoint: str | Path | None = None,
    network: Network | None = None,
    *,
    parser: Any = None,
    depth: int | None = None,
    embedding: str | None = None,
) -> DocumentGraphRerank:
    """Return the operator of a checkpoint or a network; an untrained one if neither is given. Log a warning if it is not trained.

    `embedding` is the name of the model of the vectors, if known. Raises InvalidArgumentError if both a checkpoint and a network
    are given, the checkpoint does not match the parser or the embedding model, or it is not one of G-RAG.
    """
    for untrained in _untrained(checkpoint, network):
        _logger.warning("G-RAG: %s.", untrained.note)
    return _reranker(checkpoint, network, parser, depth, embedding)


def _untrained(checkpoint: str | Path | None, network: Network | None) -> tuple[Untrained, ...]:
    if checkpoint is None and network is None:
        return (_UNTRAINED,)
    return (_RANDOM,) if isinstance(network, DocumentGraphNetwork) and not network.trained else ()


def _reranker(
    checkpoint: str | Path | None, network: Network | None, parser: Any, depth: int | None, embedding: str | None
) -> DocumentGraphRerank:
    if checkpoint is None:
        return DocumentGraphRerank(network, parser=parser, depth=_DEPTH if depth is None else depth)
    if network is not None:
        raise InvalidArgumentError("Pass either checkpoint= or network=.")
    tensors, config = _read(checkpoint)
    made = network_of_config(config["network"], tensors)
    depth = config["depth"] if depth is None else depth
    reranker = DocumentGraphRerank(made, parser=parser, depth=depth, together=config["together"])
    if config["parser"] != reranker.parser.name:
        raise InvalidArgumentError(
            f"{checkpoint} was trained with the parser {config.get('parser')!r}, this is {reranker.parser.name!r}; pass parser=."
        )
    # An EvidenceNetwork reads similarities, not vectors.
    trained = config["embedding"]
    if isinstance(made, DocumentGraphNetwork) and trained and embedding and trained != embedding:
        raise InvalidArgumentError(
            f"{checkpoint} was trained with vectors of {trained!r}, these are of {embedding!r}; train it with this model."
        )
    return reranker


def _read(checkpoint: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    return load_part(checkpoint, _PART, _SETTINGS, "G-RAG", _DEFAULTS)


def fit_grag(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    seed: int = 0,
    show_progress: bool = False,
    first: str | Operator = _FIRST,
    first_settings: Mapping[str, Any] | None = None,
    depth: int = _DEPTH,
    parser: Any = None,
    together: bool = False,
    network: Network | None = None,
    training: dict[str, Any] | None = None,
    published: bool = False,
) -> dict[str, Any]:
    """Train G-RAG on a dataset and write it as a checkpoint; a stopped run continues after its last epoch.

    Parameters
    ----------
    dataset, index, folder, seed, show_progress
        As for :func:`~graph_retrievers.systems.lesegr.retriever.fit_lesegr`.
    first, depth, parser, together
        See :class:`GRAG` and :class:`~graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.
    first_settings : mapping, optional
        Keywords of the first search if it is given by name; the checkpoint keeps them.
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Trained in place; by default a new EvidenceNetwork.
    training : mapping, optional
        Keywords of :func:`~graph_retrievers.systems.grag.training.fit_document_graph`.
    published : bool, default False
        Whether the settings of :attr:`GRAG.PUBLISHED` replace `first` and `depth`, and a network that is not given.
    """
    of_paper = published_settings(GRAG)
    if published:
        first, depth = of_paper["first"], of_paper["depth"]
    depth, seed, together = positive("depth", depth), seed_number(seed), bool(together)
    folder = checkpoint_folder(folder)
    train, dev = labelled_queries(dataset, index, "G-RAG")
    if network is None and published:
        network = DocumentGraphNetwork(index.dense.dimension, **of_paper["network"], seed=seed)
    network = EvidenceNetwork(seed=seed) if network is None else network
    settings = dict(first_settings or {})
    cache = parser if isinstance(parser, MeaningCache) else MeaningCache(parser)
    reranker = DocumentGraphRerank(network, parser=cache, depth=depth, together=together)
    options = {"resume": folder / "under-way", **(training or {})}
    candidates = first_stage(index, first, settings, depth)
    history = fit_document_graph(index, train, dev, reranker, candidates, seed=seed, show_progress=show_progress, **options)
    config = {
        "network": network.config(),
        "first": first if isinstance(first, str) else None,
        "first_settings": settings,
        "depth": depth,
        "together": together,
        "parser": cache.name,
        "embedding": index.embedding_name,
        "seed": seed,
        "history": history.to_dict(),
    }
    save_checkpoint(folder, _PART, network.state_dict(), config)
    if options["resume"] is not None:
        clear_state(options["resume"])
    return history.summary()
