"""The changes of a write to an engine, how much it may delete, and which vectors it can take."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, shown
from graph_retrievers.signals.dense import DenseIndex

__all__ = ["Changes"]

logger = logging.getLogger(__name__)
# By how much the length of a vector may differ from 1.
_NEAR = 1e-3


class Changes(NamedTuple):
    """How many nodes, edges or points of an engine were written, only got another place or degree, and were deleted."""

    written: int = 0
    moved: int = 0
    deleted: int = 0


def check_loss(where: str, size: int, loss: int, replace: bool) -> None:
    """Raise InvalidArgumentError if more than half of an engine's contents would be deleted, unless that is intended."""
    if 2 * loss > size and not replace:
        raise InvalidArgumentError(
            f"{where} holds {size:,} nodes, and {loss:,} of them are not in this index: it may be of other documents. Give another "
            "name to write this one beside it, or pass replace=True to write it in its place."
        )


def check_same_vectors(where: str, there: tuple[int, str], given: tuple[int, str]) -> None:
    """Raise an error unless an index has the same vectors as an engine: their width, 0 for none, and their model, "" if unknown."""
    (width, model), (given_width, given_model) = there, given
    way = "Give another name to write this index beside it, or pass replace=True to write it in its place."
    if width != given_width:
        if not width:
            reason = f"no vectors, and this index has some of width {given_width}"
        elif not given_width:
            reason = f"vectors of width {width}, and this index has none: build it with embedding="
        else:
            reason = f"vectors of width {width}, and this index of width {given_width}"
        raise DimensionMismatchError(f"{where} has {reason}. {way}")
    if model and given_model and model != given_model:
        raise InvalidArgumentError(f"{where} has vectors of the model {model!r}, and this index of {given_model!r}. {way}")


def check_lengths(dense: DenseIndex) -> None:
    """Raise InvalidArgumentError if vectors are compared by dot products that are not cosines."""
    if dense.metric == "dot" and bool((((dense.norms - 1).abs() > _NEAR) & (dense.norms > 0)).any()):
        raise InvalidArgumentError(
            "The index compares its vectors by dot products, and engines by cosine, which gives other answers for vectors of "
            'several lengths; build it with metric="cosine", or give vectors of length 1.'
        )


def warn_of_bare(dense: DenseIndex, ids: Sequence[str]) -> None:
    """Warn of nodes without a vector; `ids` are those of all."""
    if bare := (dense.norms == 0).nonzero().flatten().tolist():
        warn_of_bare_nodes(len(bare), len(dense), ids[bare[0]])


def warn_of_bare_nodes(count: int, size: int, node: str) -> None:
    """Warn that a number of nodes have no vector; `node` is the id of one, and `size` the number of all."""
    logger.warning(
        "%s of %s nodes have no vector (a row of zeros), such as %s: on engines, a retriever that compares one ends in an error.",
        f"{count:,}",
        f"{size:,}",
        shown(node),
    )
