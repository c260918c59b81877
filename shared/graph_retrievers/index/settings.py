"""The parts of a saved index other than its graph: signals, and the edge specifications, by name and settings."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.construction.contextual import ContextualCitations
from graph_retrievers.construction.edges import FunctionEdges, specifications
from graph_retrievers.construction.fields import Metadata
from graph_retrievers.construction.links import Links
from graph_retrievers.construction.mentions import TitleMentions
from graph_retrievers.construction.neighbors import NearestNeighbors
from graph_retrievers.construction.numbered_references import NumberedReferences
from graph_retrievers.construction.relationships import Relationships
from graph_retrievers.construction.spec import CorpusNodes, EdgeSource, EdgeSpec, SpecEdges
from graph_retrievers.construction.structure import DocumentStructure
from graph_retrievers.errors import CorruptIndexError, InvalidArgumentError, MissingSignalError
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import Embedding, model_name
from graph_retrievers.signals.multi_vector import MultiVectorIndex
from graph_retrievers.signals.signal import Signal
from graph_retrievers.signals.sparse import SparseIndex
from graph_retrievers.signals.tfidf import TfIdf

logger = logging.getLogger(__name__)

# What saved indexes can name; others are given to `load` as objects.
_SIGNALS: dict[str, type[Signal]] = {kind.kind: kind for kind in (DenseIndex, BM25, TfIdf, SparseIndex, MultiVectorIndex)}
_SPECS: dict[str, type[EdgeSpec]] = {
    kind.__name__: kind
    for kind in (
        *(ContextualCitations, DocumentStructure, Links, Metadata, NearestNeighbors, NumberedReferences, Relationships),
        TitleMentions,
    )
}


def saved_signals(signals: Mapping[str, Signal]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return the tensors of signals, and their names, kinds and settings."""
    tensors: dict[str, Tensor] = {}
    entries: list[dict[str, Any]] = []
    for number, (name, signal) in enumerate(signals.items()):
        arrays, settings = signal.state()
        tensors |= {f"{number}.{key}": value for key, value in arrays.items()}
        entries.append({"name": name, "kind": signal.kind, "settings": settings})
    return tensors, entries


def restored_signals(
    tensors: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    replacements: Mapping[str, Signal],
    device: torch.device,
    folder: Any,
) -> dict[str, Signal]:
    """Return the signals that :func:`saved_signals` wrote, replaced by `replacements`; `folder` is for messages."""
    signals: dict[str, Signal] = {}
    try:
        entries = [(str(entry["name"]), str(entry["kind"]), entry["settings"]) for entry in settings["signals"]]
    except (KeyError, TypeError) as error:
        raise CorruptIndexError(f"The settings of {folder} cannot be read ({error!r}); build the index again.") from error
    for number, (name, kind, options) in enumerate(entries):
        if name in replacements:
            continue
        if kind not in _SIGNALS:
            raise MissingSignalError(f"Signal {name!r} of {folder} is a {kind!r}; pass it as signals={{{name!r}: ...}}.")
        prefix = f"{number}."
        arrays = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        try:
            signals[name] = _SIGNALS[kind].restore(arrays, options, device)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise CorruptIndexError(f"Signal {name!r} of {folder} cannot be read ({error}); build the index again.") from error
    return signals | dict(replacements)


def saved_embedding(settings: Mapping[str, Any], folder: Any) -> tuple[str, bool]:
    """Return the name of the embedding model of a saved index, and whether it can be loaded by that name."""
    model = settings.get("embedding")
    if not isinstance(model, Mapping) or not isinstance(model.get("name"), str):
        raise CorruptIndexError(f"The settings of {folder} do not name its embedding model; build the index again.")
    return model["name"], model.get("by_name") is True


def warn_of_other_model(where: Any, made_by: str, embedding: Embedding | None) -> None:
    """Warn if questions are embedded by another model than that, by name, which made the vectors of an index."""
    name = model_name(embedding)
    # The name of the same model may begin with its folder or its owner.
    if made_by and embedding is not None and Path(name).name != Path(made_by).name:
        logger.warning(
            "The vectors of %s were made by %s, and questions are embedded by %s. If that is another model, vector search "
            "finds the wrong nodes; pass the model that built the index.",
            where,
            made_by,
            name,
        )


def saved_sources(sources: Iterable[EdgeSource]) -> list[dict[str, Any]]:
    """Return the sources of edges: the settings of this package's specifications, and only the names of others."""
    return [{"rows": source.rows, **({} if source.spec is None else _spec_entry(source.spec))} for source in sources]


def restored_sources(settings: Mapping[str, Any], edges: Any, folder: Any) -> list[EdgeSource]:
    """Return the sources that :func:`saved_sources` wrote; specifications outside this package are taken from `edges`."""
    specs = list(specifications(edges))

    def spec(entry: Mapping[str, Any]) -> EdgeSpec | None:
        name = entry.get("name")
        if name is None:
            return None
        # If several have the name, the first with the same settings is taken, else the first.
        places = [place for place, item in enumerate(specs) if _name(item) == name]
        same = [place for place in places if _spec_entry(specs[place])["settings"] == entry.get("settings")]
        if places:
            return specs.pop((same or places)[0])
        return _SPECS[name](**entry["settings"]) if name in _SPECS else _Unknown(str(name))

    try:
        sources = [EdgeSource(spec(entry), int(entry["rows"])) for entry in settings["edges"]]
        if any(source.rows < 0 for source in sources):
            raise ValueError("a number of edges is negative")
        return sources
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptIndexError(f"The sources of the edges of {folder} cannot be read ({error!r}); build it again.") from error


def picklable_sources(sources: Iterable[EdgeSource]) -> tuple[EdgeSource, ...]:
    """Return sources of edges for a pickle: functions, and classes that cannot be pickled, only by their names."""

    def pickles(spec: EdgeSpec | None) -> bool:
        try:
            pickle.dumps(spec)
        except (pickle.PicklingError, TypeError, AttributeError):
            return False
        return True

    return tuple(s if s.spec is None or pickles(s.spec) else EdgeSource(_Unknown(_name(s.spec)), s.rows) for s in sources)


def _spec_entry(spec: EdgeSpec) -> dict[str, Any]:
    settings = {name: value for name, value in vars(spec).items() if not name.startswith("_")}
    return {"name": _name(spec), "settings": settings if _SPECS.get(type(spec).__name__) is type(spec) else {}}


def _name(spec: EdgeSpec) -> str:
    if isinstance(spec, FunctionEdges):
        return str(getattr(spec.function, "__qualname__", type(spec.function).__qualname__))
    return spec.name if isinstance(spec, _Unknown) else type(spec).__name__


class _Unknown(EdgeSpec):
    """A specification that a saved index names, and that is not given."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        raise InvalidArgumentError(
            f"Edges of this index were found by {self.name!r}, which is not part of this package, so that they cannot follow a "
            "change; pass it as edges= when the index is loaded."
        )
