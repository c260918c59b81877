"""BERT's encoder without padding, and without work that the [CLS] latent does not need."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

__all__ = ["PackedEncoder"]

_FAMILY = {"BertModel", "RobertaModel", "XLMRobertaModel", "CamembertModel", "ElectraModel"}


class PackedEncoder:
    """The last hidden state of the first token, computed without padding.

    The tokens of all rows are in one table [T, d]. Embeddings, linear layers and norms run over this table, with the three
    projections of a layer fused; attention runs over groups of rows of equal length, whose heads are a view of it. In the last
    layer, keys and values are computed for all tokens, the rest for the first token of each row only. The sums are those of the
    model, in another order.

    On a CPU all rows of a group have the same length, so there is no padding and no mask. Elsewhere the number of kernels matters
    more: a group includes rows down to 3/4 of its longest, padded and masked for attention only.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._embeddings = model.embeddings
        self._project = getattr(model, "embeddings_project", None)
        self._layers = list(model.encoder.layer)
        self._heads = int(model.config.num_attention_heads)
        self._device = next(model.parameters()).device
        self._slack = 1.0 if self._device.type == "cpu" else 0.75
        table = model.embeddings.position_embeddings
        self._position_padding = table.padding_idx
        attentions = [layer.attention.self for layer in self._layers]
        with torch.inference_mode():
            self._weights = [torch.cat([a.query.weight, a.key.weight, a.value.weight]) for a in attentions]
            self._biases = [torch.cat([a.query.bias, a.key.bias, a.value.bias]) for a in attentions]

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
        """Return the last hidden state of each row's first token, shape [n, d], from tokens (longest row first) and token types."""
        lengths = [len(row) for row in ids]
        layout = self._groups(lengths)
        tokens = self._flat(ids)
        hidden = self._embeddings(
            input_ids=tokens.unsqueeze(0),
            token_type_ids=(self._flat(types) if types is not None else torch.zeros_like(tokens)).unsqueeze(0),
            position_ids=self._positions(tokens, lengths).unsqueeze(0),
        )[0]
        if self._project is not None:
            hidden = self._project(hidden)
        for layer, weight, bias in zip(self._layers[:-1], self._weights, self._biases, strict=False):
            hidden = self._rest(layer, self._attend(linear(hidden, weight, bias), layout), hidden)
        starts = torch.tensor([0, *lengths[:-1]], device=self._device).cumsum(0)
        first = hidden[starts]
        width = first.shape[1]
        weight, bias = self._weights[-1], self._biases[-1]
        query = linear(first, weight[:width], bias[:width])
        attended = self._attend_first(query, linear(hidden, weight[width:], bias[width:]), layout)
        return self._rest(self._layers[-1], attended, first)

    @staticmethod
    def _rest(layer: Any, attended: Tensor, hidden: Tensor) -> Tensor:
        """Return the output of a layer from the output of its attention, row by row."""
        hidden = layer.attention.output(attended, hidden)
        return layer.output(layer.intermediate(hidden), hidden)  # type: ignore[no-any-return]

    def _attend(self, projected: Tensor, layout: list[_Group]) -> Tensor:
        """Return self-attention of packed queries, keys and values: shape [T, d], from shape [T, 3 d]."""
        parts = []
        for group in layout:
            query, key, value = self._split(projected, group, 3)
            out = scaled_dot_product_attention(query, key, value, attn_mask=group.mask)
            out = out.transpose(1, 2).reshape(group.rows * group.length, -1)
            parts.append(out if group.kept is None else out[group.kept])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend_first(self, query: Tensor, projected: Tensor, layout: list[_Group]) -> Tensor:
        """Return attention of one query per row over packed keys and values: shape [n, d], from [n, d] and [T, 2 d]."""
        parts = []
        for group in layout:
            key, value = self._split(projected, group, 2)
            asking = query[group.first : group.first + group.rows].view(group.rows, 1, self._heads, -1).transpose(1, 2)
            parts.append(scaled_dot_product_attention(asking, key, value, attn_mask=group.mask).reshape(group.rows, -1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _split(self, projected: Tensor, group: _Group, pieces: int) -> tuple[Tensor, ...]:
        """Return the heads of a group: `pieces` tensors of shape [g, heads, L, d / heads]."""
        rows = projected[group.start : group.stop] if group.padded is None else projected[group.padded]
        heads = rows.view(group.rows, group.length, pieces, self._heads, -1)
        return heads.permute(2, 0, 3, 1, 4).unbind(0)

    def _groups(self, lengths: list[int]) -> list[_Group]:
        groups: list[_Group] = []
        row = start = 0
        while row < len(lengths):
            longest, end = lengths[row], row
            while end < len(lengths) and lengths[end] >= self._slack * longest:
                end += 1
            own = lengths[row:end]
            stop = start + sum(own)
            if own[-1] == longest:
                groups.append(_Group(row, end - row, longest, start, stop, None, None, None))
            else:
                sizes = torch.tensor(own).unsqueeze(1)
                column = torch.arange(longest)
                inside = column < sizes
                offsets = start + sizes.cumsum(0) - sizes
                padded = (offsets + column.minimum(sizes - 1)).flatten().to(self._device)
                kept = inside.flatten().nonzero().squeeze(1).to(self._device)
                groups.append(_Group(row, end - row, longest, start, stop, padded, kept, inside[:, None, None].to(self._device)))
            row, start = end, stop
        return groups

    def _flat(self, rows: list[list[int]]) -> Tensor:
        return torch.tensor([token for row in rows for token in row], device=self._device)

    def _positions(self, tokens: Tensor, lengths: list[int]) -> Tensor:
        """Return the position of each token in its row, as the model counts."""
        sizes = torch.tensor(lengths, device=self._device)
        padding = self._position_padding
        if padding is None:
            ends = sizes.cumsum(0)
            return torch.arange(len(tokens), device=self._device) - (ends - sizes).repeat_interleave(sizes)
        # RoBERTa counts from after its padding token and skips that token where a text spells it out.
        counted = (tokens != padding).long()
        total = counted.cumsum(0)
        starts = sizes.cumsum(0) - sizes
        before = (total - counted)[starts].repeat_interleave(sizes)
        return (total - before) * counted + padding


class _Group(NamedTuple):
    """Consecutive rows with joint attention; the last three fields are None if their lengths are equal."""

    first: int
    rows: int
    length: int
    start: int
    stop: int
    padded: Tensor | None
    kept: Tensor | None
    mask: Tensor | None
