"""BERT's encoder without padding, and without work that the pooled state does not need."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

_logger = logging.getLogger(__name__)

_FAMILY = {"BertModel", "RobertaModel", "XLMRobertaModel", "CamembertModel", "ElectraModel"}

# Activations that oneDNN computes in its matrix product: its name for it, and the variant.
_FUSED = {"gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "relu": ("relu", "")}


class PackedEncoder:
    """The pooled last hidden state of each row, computed without padding, for a model of transformers that :meth:`fits`.

    The tokens of all rows are in one table [T, d]. Embeddings, linear layers and norms run over this table, with the three
    projections of a layer fused; attention runs over groups of rows of equal length, whose heads are a view of it. The sums are
    those of the model, in another order.

    For the state of the first token (`pooling` "cls"), keys and values of the last layer are computed for all tokens, and the
    rest of this layer only for the first token of each row. The mean over the tokens of a row ("mean") is a sum in float32.

    On a CPU all rows of a group have the same length, so there is no padding and no mask. Elsewhere the number of kernels matters
    more: a group includes rows down to 3/4 of its longest, padded and masked only for attention and the mean.

    With a `dtype` of half precision, linear layers and attention are computed in it; embeddings, norms and residual connections
    stay in the dtype of the model. Weights of bfloat16 on a CPU are copied in the layout of oneDNN's matrix product; where
    :func:`onednn_bfloat16` is false, they are kept as float32, and each product is rounded to bfloat16, as oneDNN does.
    """

    def __init__(self, model: Any, pooling: Literal["cls", "mean"], dtype: torch.dtype | None = None) -> None:
        self._embeddings = model.embeddings
        self._project = getattr(model, "embeddings_project", None)
        self._heads = int(model.config.num_attention_heads)
        self._device = next(model.parameters()).device
        self._slack = 1.0 if self._device.type == "cpu" else 0.75
        self._position_padding = model.embeddings.position_embeddings.padding_idx
        with torch.inference_mode():
            layers = list(model.encoder.layer)
            self._dtype = dtype or layers[0].output.dense.weight.dtype
            self._layers = [_Layer(layer, self._dtype) for layer in (layers[:-1] if pooling == "cls" else layers)]
            self._last = _LastLayer(layers[-1], self._dtype) if pooling == "cls" else None

    @staticmethod
    def fits(model: Any) -> bool:
        """Return whether an encoder has the architecture of BERT with absolute positions."""
        return (
            type(model).__name__ in _FAMILY
            and type(model).__module__.startswith("transformers.")
            and not getattr(model.config, "is_decoder", False)
            and getattr(model.config, "position_embedding_type", None) in (None, "absolute")
        )

    def __call__(self, ids: list[list[int]], types: list[list[int]] | None) -> Tensor:
        """Return the pooled state of each row, shape [n, d], float32, from tokens (longest row first) and token types."""
        lengths = np.array([len(row) for row in ids])
        layout = self._groups(lengths)
        tokens = np.concatenate(ids)
        kinds = np.zeros_like(tokens) if types is None else np.concatenate(types)
        inputs = torch.from_numpy(np.stack([tokens, kinds, self._positions(tokens, lengths)])).to(self._device)
        names = ("input_ids", "token_type_ids", "position_ids")
        hidden = self._embeddings(**{name: row.unsqueeze(0) for name, row in zip(names, inputs, strict=True)})[0]
        if self._project is not None:
            hidden = self._project(hidden)
        for layer in self._layers:
            hidden = layer.after_attention(self._attend(layer.projected(hidden.to(self._dtype)), layout), hidden)
        if self._last is None:
            return self._mean(hidden, layout)
        starts = torch.from_numpy(lengths.cumsum() - lengths).to(self._device)
        first = hidden[starts]
        query, keys_values = self._last.query(first.to(self._dtype)), self._last.keys_and_values(hidden.to(self._dtype))
        attention = self._attend_first(query, keys_values, layout)
        return self._last.after_attention(attention, first).float()

    def _attend(self, projected: Tensor, layout: list[_Group]) -> Tensor:
        """Return self-attention of packed queries, keys and values: shape [T, d], from shape [T, 3 d]."""
        parts = []
        for group in layout:
            query, key, value = self._split(projected, group, 3)
            out = scaled_dot_product_attention(query, key, value, attn_mask=group.mask)
            out = out.transpose(1, 2).reshape(group.rows * group.length, -1)
            parts.append(out if group.places is None else out[group.places])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend_first(self, query: Tensor, projected: Tensor, layout: list[_Group]) -> Tensor:
        """Return attention of one query per row over packed keys and values: shape [n, d], from [n, d] and [T, 2 d]."""
        parts = []
        for group in layout:
            key, value = self._split(projected, group, 2)
            asking = query[group.first : group.first + group.rows].view(group.rows, 1, self._heads, -1).transpose(1, 2)
            parts.append(scaled_dot_product_attention(asking, key, value, attn_mask=group.mask).reshape(group.rows, -1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _mean(self, hidden: Tensor, layout: list[_Group]) -> Tensor:
        """Return the mean of the states of each row: shape [n, d], float32, from shape [T, d]."""
        parts = []
        for group in layout:
            states = group.table(hidden).view(group.rows, group.length, -1)
            if group.mask is None:
                parts.append(states.mean(1, dtype=torch.float32))
            else:
                inside = group.mask.view(group.rows, group.length, 1)
                parts.append((states * inside).sum(1, dtype=torch.float32) / inside.sum(1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _split(self, projected: Tensor, group: _Group, pieces: int) -> tuple[Tensor, ...]:
        """Return the heads of a group: `pieces` tensors of shape [g, heads, L, d / heads]."""
        heads = group.table(projected).view(group.rows, group.length, pieces, self._heads, -1)
        return heads.permute(2, 0, 3, 1, 4).unbind(0)

    def _groups(self, lengths: np.ndarray) -> list[_Group]:
        groups: list[_Group] = []
        row = start = 0
        while row < len(lengths):
            longest = int(lengths[row])
            # Lengths decrease.
            end = row + int(np.searchsorted(-lengths[row:], -self._slack * longest, side="right"))
            group_lengths = torch.from_numpy(lengths[row:end]).unsqueeze(1)
            stop = start + int(group_lengths.sum())
            if lengths[end - 1] == longest:
                groups.append(_Group(row, end - row, longest, start, stop, None, None, None))
            else:
                column = torch.arange(longest)
                inside = column < group_lengths
                offsets = start + group_lengths.cumsum(0) - group_lengths
                indices = (offsets + column.minimum(group_lengths - 1)).flatten().to(self._device)
                places = inside.flatten().nonzero().squeeze(1).to(self._device)
                groups.append(_Group(row, end - row, longest, start, stop, indices, places, inside[:, None, None].to(self._device)))
            row, start = end, stop
        return groups

    def _positions(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the position of each token in its row, as the model counts."""
        starts = lengths.cumsum() - lengths
        padding = self._position_padding
        if padding is None:
            return np.arange(len(tokens)) - np.repeat(starts, lengths)
        # RoBERTa counts from after its padding token and skips that token where a text spells it out.
        mask = (tokens != padding).astype(tokens.dtype)
        total = mask.cumsum()
        before = np.repeat((total - mask)[starts], lengths)
        return (total - before) * mask + padding


class _Group(NamedTuple):
    """Consecutive rows with joint attention; the last three fields are None if their lengths are equal."""

    first: int
    rows: int
    length: int
    start: int
    stop: int
    padded: Tensor | None
    places: Tensor | None
    mask: Tensor | None

    def table(self, packed: Tensor) -> Tensor:
        """Return the tokens of the group, each row padded to its length: shape [rows * length, d], from shape [T, d]."""
        return packed[self.start : self.stop] if self.padded is None else packed[self.padded]


class _Layer:
    """The weights of a layer, its three projections as one."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention = layer.attention.self
        self.projected = _linear([attention.query, attention.key, attention.value], dtype)
        self.after_attention = _AfterAttention(layer, dtype)


class _LastLayer:
    """The weights of a layer of which the first token of each row asks."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention = layer.attention.self
        self.query = _linear([attention.query], dtype)
        self.keys_and_values = _linear([attention.key, attention.value], dtype)
        self.after_attention = _AfterAttention(layer, dtype)


class _AfterAttention:
    """A layer after its attention, row by row."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._out = _linear([layer.attention.output.dense], dtype)
        self._norms = layer.attention.output.LayerNorm, layer.output.LayerNorm
        function = layer.intermediate.intermediate_act_fn
        self._wide = _linear([layer.intermediate.dense], dtype, function, _activation(function))
        self._narrow = _linear([layer.output.dense], dtype)

    def __call__(self, attention: Tensor, hidden: Tensor) -> Tensor:
        """Return the output of the layer: shape [T, d], from attention and the input of the layer."""
        hidden = self._norms[0](hidden + self._out(attention))
        return self._norms[1](hidden + self._narrow(self._wide(hidden.to(self._dtype))))  # type: ignore[no-any-return]


def _activation(function: Any) -> str:
    """Return the name in transformers of an activation that is fused; empty for others."""
    names = {"GELUActivation": "gelu", "NewGELUActivation": "gelu_new", "ReLU": "relu"}
    return names.get(type(function).__name__, "")


def _linear(
    parts: list[Any], dtype: torch.dtype, function: Callable[[Tensor], Tensor] | None = None, activation: str = ""
) -> Callable[[Tensor], Tensor]:
    """Return x -> function(x W' + b) of linear layers side by side; in bfloat16 on a CPU by oneDNN, the weights laid out once."""
    weights, biases = [part.weight.detach() for part in parts], [part.bias.detach() for part in parts]
    # The weights of a single layer are those of the model, not a copy.
    weight = (weights[0] if len(parts) == 1 else torch.cat(weights)).to(dtype)
    bias = (biases[0] if len(parts) == 1 else torch.cat(biases)).to(dtype)
    if weight.device.type == "cpu" and dtype == torch.bfloat16:
        if onednn_bfloat16():
            return _onednn_linear(weight, bias, function, activation)
        weight, bias = weight.float(), bias.float()
        if function is None:
            return lambda rows: linear(rows.float(), weight, bias).bfloat16()
        return lambda rows: function(linear(rows.float(), weight, bias)).bfloat16()
    if function is None:
        return lambda rows: linear(rows, weight, bias)
    return lambda rows: function(linear(rows, weight, bias))


def _onednn_linear(
    weight: Tensor, bias: Tensor, function: Callable[[Tensor], Tensor] | None, activation: str
) -> Callable[[Tensor], Tensor]:
    packed, product = torch.ops.mkldnn._reorder_linear_weight(weight), torch.ops.mkldnn._linear_pointwise
    name, variant = _FUSED.get(activation, ("none", ""))
    if function is None or activation in _FUSED:
        return lambda rows: product(rows, packed, bias, name, [], variant)
    return lambda rows: function(product(rows, packed, bias, "none", [], ""))


@cache
def onednn_bfloat16() -> bool:
    """Return whether oneDNN multiplies matrices of bfloat16 here, tried once in a process; False with GRAPH_RETRIEVERS_PLAIN=1.

    It needs instructions of the processor (AVX-512, or AVX-NE-CONVERT), and private operators of torch.
    """
    if os.environ.get("GRAPH_RETRIEVERS_PLAIN", "0") not in ("", "0"):
        reason = "GRAPH_RETRIEVERS_PLAIN is set"
    else:
        numbers = torch.arange(-512, 512).reshape(32, 32) / 512
        try:
            with torch.inference_mode():
                values = _onednn_linear(numbers.bfloat16(), numbers[0].bfloat16(), gelu, "gelu")(numbers.bfloat16()).float()
        # Private operators may be missing, take other arguments, or refuse the processor.
        except Exception as error:
            reason = f"oneDNN cannot: {error}"
        else:
            exact = gelu(linear(numbers, numbers, numbers[0]))
            if torch.allclose(values, exact, rtol=2e-2, atol=2e-2):
                return True
            reason = "oneDNN gives other numbers"
    _logger.info("Products of bfloat16 are computed as float32 on this CPU, which takes longer (%s).", reason)
    return False
