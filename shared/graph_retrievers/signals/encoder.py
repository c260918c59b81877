"""The encoder of embedding models and cross-encoders: pooled states of rows of tokens, in batches of tokens, on all threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.signals.packed_encoder import PackedEncoder, onednn_bfloat16

__all__ = ["longest"]

T = TypeVar("T")
R = TypeVar("R")

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_UNLIMITED = 1 << 30


class Encoder:
    """Pooled last hidden states of a model of transformers, an encoder without a head: float32.

    `pooling` is "cls", the state of the first token, or "mean", that over all tokens of a row; `pad` is the padding token. A
    model of BERT's architecture runs as a :class:`~graph_retrievers.signals.packed_encoder.PackedEncoder` once :meth:`pack` has
    been called, any other by its own forward pass, padded on the right. On a CPU, batches of a packed model run side by side,
    each on one thread, because threads that share a batch wait for each other at every layer, which takes long on a busy machine.
    """

    def __init__(self, model: Any, pooling: Literal["cls", "mean"], pad: int | None) -> None:
        self.pooling, self.device = pooling, next(model.parameters()).device
        self.width = int(getattr(model.config, "hidden_size", None) or model.config.dim)
        # Models with fewer than two token types take none (or ignore them), whatever the tokenizer returns.
        self._keys = ["input_ids", *(["token_type_ids"] if (getattr(model.config, "type_vocab_size", 0) or 0) > 1 else [])]
        self._model, self._pad = model, pad or 0
        self.packed: PackedEncoder | None = None

    def pack(self, agrees: Callable[[], bool], dtype: torch.dtype | None = None) -> None:
        """Run without padding from now on, if the model supports it and `agrees`, which may encode, then returns true.

        With a `dtype`, its linear layers are of this precision.
        """
        if PackedEncoder.fits(self._model):
            before, self.packed = self.packed, PackedEncoder(self._model, self.pooling, dtype)
            if not agrees():
                self.packed = before

    def release(self) -> None:
        """Drop the model if the packed encoder has all that it needs from it."""
        if self.packed is not None:
            self._model = None

    def inputs(self, encoding: Any) -> dict[str, list[list[int]]]:
        """Return the lists of a tokenizer's output that the model accepts."""
        return {key: encoding[key] for key in self._keys if key in encoding}

    def __call__(self, encoding: dict[str, list[list[int]]], budget: int) -> Tensor:
        """Return the pooled state of each row: Tensor, shape [n, d], float32, on the model's device; see :meth:`batches`."""
        pooled = torch.empty((len(encoding["input_ids"]), self.width), device=self.device)
        for rows, states in self.batches(encoding, budget):
            pooled[rows] = states
        return pooled

    def batches(self, encoding: dict[str, list[list[int]]], budget: int) -> Iterator[tuple[list[int], Tensor]]:
        """Yield row numbers and their pooled states, [b, d], longest rows first, of at most `budget` tokens when padded."""

        @torch.inference_mode()
        def states(rows: list[int]) -> tuple[list[int], Tensor]:
            batch = {key: [values[i] for i in rows] for key, values in encoding.items()}
            if self.packed is not None:
                return rows, self.packed(batch["input_ids"], batch.get("token_type_ids"))
            inputs = self.padded(batch)
            return rows, self._pooled(self._model(**inputs).last_hidden_state, inputs["attention_mask"])

        parts = list(_buckets([len(ids) for ids in encoding["input_ids"]], budget))
        if self.packed is not None and self.device.type == "cpu":
            yield from _side_by_side(states, parts)
        else:
            yield from map(states, parts)

    def padded(self, batch: dict[str, list[list[int]]]) -> dict[str, Tensor]:
        """Return the inputs of a forward pass, padded on the right (tokenizers differ in this)."""
        lengths = torch.tensor([len(ids) for ids in batch["input_ids"]])
        mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
        inputs = {"attention_mask": mask.long()}
        for key, values in batch.items():
            table = torch.full(mask.shape, self._pad if key == "input_ids" else 0)
            table[mask] = torch.tensor([token for row in values for token in row])
            inputs[key] = table
        return {key: table.to(self.device) for key, table in inputs.items()}

    def _pooled(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the pooled states: shape [n, d], float32, from hidden states [n, L, d] and a mask [n, L]."""
        if self.pooling == "cls":
            return hidden[:, 0].float()
        weights = mask.unsqueeze(-1).to(torch.float32)
        return (hidden.float() * weights).sum(1) / weights.sum(1)


def _buckets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield rows by decreasing length, in batches whose size when padded is at most the budget."""
    rows: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if rows and lengths[rows[0]] * (len(rows) + 1) > budget:
            yield rows
            rows = []
        rows.append(i)
    if rows:
        yield rows


def _side_by_side(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield `work` of each item, in order, computed on as many threads as torch has here, one for each item."""
    count = torch.get_num_threads()
    workers = min(count, len(items))
    if workers < 2:
        yield from map(work, items)
        return
    barrier = threading.Barrier(workers + 1)

    def start() -> None:
        # Torch gives a thread its number at its first use, and then keeps the number that is set.
        torch.get_num_threads()
        torch.set_num_threads(1)
        barrier.wait()

    pool = ThreadPoolExecutor(workers, "encoder", initializer=start)
    futures: list[Future[R]] = []
    try:
        try:
            futures += [pool.submit(work, item) for item in items]
            barrier.wait()
        except BaseException:
            # Lets go of workers where not all could be started; afterwards, it would break those that are leaving the barrier.
            barrier.abort()
            raise
        # The number that the workers set also counts for new threads of the process.
        torch.set_num_threads(count)
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
        pool.shutdown()


def dtype_of(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype | None:
    """Return the dtype with a name, None for None; InvalidArgumentError if the encoder cannot run in it on a device."""
    result = _DTYPES.get(str(dtype).removeprefix("torch."))
    if dtype is not None and (result is None or (device.type == "cpu" and result == torch.float16)):
        raise InvalidArgumentError(
            f"dtype {shown(dtype)} cannot be used on {device}; pass 'float32' or 'bfloat16' (on a GPU also 'float16')."
        )
    return result


def fast_bfloat16(device: torch.device) -> bool:
    """Return whether a device has its own instructions for bfloat16: AVX-512 BF16 or AMX of a CPU, or a GPU."""
    if device.type == "cpu":
        names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, name, bool)() for name in names) and onednn_bfloat16()
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def longest(model: Any, tokenizer: Any) -> int:
    """Return the maximum number of tokens that a model of transformers accepts."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, torch.nn.Embedding):
        # RoBERTa counts positions from after its padding token.
        limits.append(table.num_embeddings - (table.padding_idx + 1 if table.padding_idx is not None else 0))
    return min((int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < math.inf), default=_UNLIMITED)
