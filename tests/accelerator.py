"""A device "cuda" for tests: the one of this machine, or one that a processor plays where there is none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from threading import Thread
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

DEVICE = torch.device("cuda:0")
REAL = torch.cuda.is_available()

_ATEN = torch.ops.aten
_COPYING = {_ATEN._to_copy, _ATEN.copy_, _ATEN.copy}
_INDEXING = {_ATEN.index, _ATEN.index_put, _ATEN.index_put_, _ATEN._index_put_impl_, _ATEN._unsafe_index}
# How long their results are, the processor must know before it can go on.
_WAITING = {
    *(_ATEN._local_scalar_dense, _ATEN.nonzero, _ATEN.masked_select, _ATEN.equal, _ATEN.bincount, _ATEN._to_sparse),
    *(_ATEN._unique, _ATEN._unique2, _ATEN.unique_dim, _ATEN.unique_consecutive, _ATEN.unique_dim_consecutive),
}
# CUDA multiplies no matrices of whole numbers.
_PRODUCTS = {_ATEN.mm, _ATEN.bmm, _ATEN.addmm, _ATEN.baddbmm, _ATEN.mv, _ATEN.addmv, _ATEN.dot}
_JOINS = {_ATEN.cat, _ATEN.stack}
_NOT_LAUNCHED = {_ATEN.empty, _ATEN.empty_like, _ATEN.empty_strided, _ATEN.new_empty, _ATEN.new_empty_strided, _ATEN.detach}


@dataclass
class Counts:
    """What was asked of the device: operations launched; reads, for which the processor waits; uploads; bytes both ways."""

    operations: int = 0
    reads: int = 0
    uploads: int = 0
    down: int = 0
    up: int = 0

    def __sub__(self, other: Counts) -> Counts:
        """Return what came after."""
        return Counts(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


class _There(torch.Tensor):
    """A tensor on the simulated device: its numbers are in one of the processor, `held`.

    For torch itself it is one of the device "meta", since a build without CUDA knows little of "cuda".
    """

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held):
        strided = {"strides": held.stride(), "storage_offset": held.storage_offset()} if held.layout == torch.strided else {}
        # A view of an ordinary tensor is one also in inference mode.
        with torch.inference_mode(held.is_inference()):
            made = torch.Tensor._make_wrapper_subclass(
                cls, held.shape, dtype=held.dtype, layout=held.layout, device="meta", **strided
            )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl
    device, is_cuda, is_meta = property(lambda self: DEVICE), property(lambda self: True), property(lambda self: False)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _simulated(func, args, kwargs or {})

    def numpy(self, *args, **kwargs):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    __array__ = numpy

    def tolist(self):
        return self.cpu().tolist()

    def __getitem__(self, key):
        return super().__getitem__(_index(key))

    def __setitem__(self, key, value):
        super().__setitem__(_index(key), value)

    def data_ptr(self):
        return self.held.data_ptr()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def new_tensor(self, data, **options):
        return torch.tensor(data, **{"device": DEVICE, "dtype": self.dtype, **options})

    def to(self, *args, **kwargs):
        # For torch, "meta" is another device than "cuda:0".
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        for value in args:
            if isinstance(value, torch.Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, str | torch.device):
                device = torch.device(value)
            elif isinstance(value, torch.dtype):
                dtype = value
        if device is not None and torch.device(device).type == "cpu":
            return super().to("cpu", dtype)
        return self if dtype is None else super().to(dtype)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            made = self.detach().clone().requires_grad_(self.requires_grad)
            memo[id(self)] = torch.nn.Parameter(made, self.requires_grad) if isinstance(self, torch.nn.Parameter) else made
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        raise AssertionError("A pickle of a tensor of the device opens the device where it is read.")

    def __repr__(self, **kwargs):
        return f"{self.held!r} on {DEVICE}"


class Accelerator(TorchDispatchMode):
    """Inside, ``device="cuda"`` works, and `counts` says what was asked of it: on the GPU of this machine, or simulated.

    The simulated device keeps the rules of CUDA: operations on tensors of it and of the processor raise, also those on sparse
    tensors; numpy does not read its tensors; matrices of whole numbers are not multiplied. Views and empty tensors are no
    operations.
    """

    def __init__(self):
        super().__init__()
        self.counts = Counts()
        self._patches = ExitStack()

    def __enter__(self):
        if not REAL:
            self._patches = _patched()
        self._patches.enter_context(patch.object(Thread, "run", self._in_thread(Thread.run)))
        return super().__enter__()

    def _in_thread(self, run):
        """Return what a thread runs, which a mode of another thread does not reach."""

        def there(thread):
            _push_mode(self)
            try:
                run(thread)
            finally:
                _pop_mode()

        return there

    def __exit__(self, *error):
        super().__exit__(*error)
        self._patches.close()

    def now(self) -> Counts:
        """Return the counts so far."""
        return replace(self.counts)

    def since(self, before: Counts) -> Counts:
        """Return the counts after :meth:`now`."""
        return self.counts - before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._can_decompose():
            # In inference mode an operation comes here before it is one or several kernels.
            _push_mode(self)
            try:
                found = func.decompose(*args, **kwargs)
            finally:
                _pop_mode()
            if found is not NotImplemented:
                return found
        found = func(*args, **kwargs) if REAL else _simulated(func, args, kwargs)
        self._count(func, args, kwargs, found)
        return found

    def _count(self, func, args, kwargs, found):
        counts, packet = self.counts, func.overloadpacket
        if not any(map(_is_there, _tensors((*args, *kwargs.values(), found)))) or func.is_view or packet in _NOT_LAUNCHED:
            return
        if packet in _COPYING:
            source, target = (args[0], found) if packet is _ATEN._to_copy else (args[1], args[0])
            if _is_there(source) and not _is_there(target):
                counts.reads, counts.down = counts.reads + 1, counts.down + _bytes(source)
                return
            if not _is_there(source):
                counts.uploads, counts.up = counts.uploads + 1, counts.up + _bytes(source)
                return
        counts.operations += 1
        counts.reads += packet in _WAITING or (packet is _ATEN.repeat_interleave and kwargs.get("output_size") is None)
        if packet in _INDEXING:
            masks = [index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8)]
            counts.reads += bool(masks) and not (len(args) > 2 and args[2].numel() == 1)
            apart = [index for index in args[1] if index is not None and not _is_there(index)]
            counts.uploads, counts.up = counts.uploads + len(apart), counts.up + sum(map(_bytes, apart))


def _patched():
    """Let torch take "cuda:0" for a device of this machine, until the stack is closed."""
    stack = ExitStack()
    # Made outside, where no mode is.
    generator = torch.Generator()
    instead = {
        **{"is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "_lazy_init": lambda: None},
        **{"get_device_capability": lambda device=None: (9, 0), "get_device_name": lambda device=None: "a simulated device"},
        **{
            "get_rng_state": lambda device=None: generator.get_state(),
            "set_rng_state": lambda state, device=None: generator.set_state(state),
        },
        **{"synchronize": lambda device=None: None, "default_generators": (generator,)},
        **{"reset_peak_memory_stats": lambda device=None: None, "max_memory_allocated": lambda device=None: 0},
    }
    for name, value in instead.items():
        stack.enter_context(patch.object(torch.cuda, name, value))
    lifted, overwritten = torch._C._only_lift_cpu_tensors(), torch.__future__.get_overwrite_module_params_on_conversion()
    # Tensors made from numbers are made here first, and the parameters of a module moved there are new ones.
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    stack.callback(torch._C._set_only_lift_cpu_tensors, lifted)
    stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, overwritten)
    return stack


def _index(key):
    """Return what a tensor of the device is indexed by, with lists as tensors of the device."""
    if isinstance(key, tuple):
        return tuple(map(_index, key))
    if isinstance(key, list | np.ndarray):
        return torch.tensor(key, dtype=None if len(key) else torch.int64, device=DEVICE)
    return key


def _simulated(func, args, kwargs):
    tensors = _tensors((*args, *kwargs.values()))
    there = any(isinstance(tensor, _There) for tensor in tensors)
    assert not there or not any(tensor.is_meta for tensor in tensors), f"{func} was given a tensor without numbers"
    packet = func.overloadpacket
    if packet is _ATEN._has_compatible_shallow_copy_type:
        return isinstance(args[0], _There) == isinstance(args[1], _There)
    if there:
        _check(packet, args, tensors)
        if torch.Tag.inplace_view in func.tags:
            with no_dispatch():
                # The shape that torch reads of the tensor of the device.
                func(*args, **kwargs)
    device = kwargs.get("device")
    if device is not None:
        there = device.type != "cpu"
        generator = kwargs.get("generator")
        if there and generator is not None and generator.device.type == "cpu":
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        kwargs = {**kwargs, "device": torch.device("cpu")}
    elif packet is _ATEN.copy_:
        there = isinstance(args[0], _There)
    if there and torch.Tag.nondeterministic_seeded in func.tags:
        return _drawn(func, args, kwargs)
    return _computed(func, args, kwargs, tensors, there)


def _drawn(func, args, kwargs):
    """Return random numbers of the device's own generator."""
    before, (generator,) = torch.get_rng_state(), torch.cuda.default_generators
    torch.set_rng_state(generator.get_state())
    found = _computed(func, args, kwargs, _tensors((*args, *kwargs.values())), True)
    generator.set_state(torch.get_rng_state())
    torch.set_rng_state(before)
    return found


def _computed(func, args, kwargs, tensors, there):
    """Return what the processor computes, as tensors of the device if they are `there`."""
    wrapped = {id(tensor.held): tensor for tensor in tensors if isinstance(tensor, _There)}
    if wrapped:
        args, kwargs = [_mapped(_held, value) for value in args], {name: _mapped(_held, value) for name, value in kwargs.items()}
    found = func(*args, **kwargs)
    if not there:
        return found
    # What is written in place stays the same tensor.
    return _mapped(lambda leaf: wrapped.get(id(leaf)) if id(leaf) in wrapped else _There(leaf), found)


def _tensors(values):
    """Return the tensors among values and in lists of them."""
    flat = (each for value in values for each in (value if isinstance(value, list | tuple) else (value,)))
    return [each for each in flat if isinstance(each, torch.Tensor)]


def _mapped(change, value):
    """Return a value with its tensors changed: a tensor, or a list of some."""
    if isinstance(value, torch.Tensor):
        return change(value)
    return type(value)(_mapped(change, each) for each in value) if type(value) in (list, tuple) else value


def _check(packet, args, tensors):
    """Raise what CUDA raises for tensors of two devices, and for products of whole numbers."""
    apart = [tensor for tensor in tensors if not isinstance(tensor, _There)]
    if packet in _INDEXING:
        if not isinstance(args[0], _There):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        # What a tensor of the device is indexed by may be on the processor.
        apart = [each for each in args[2:3] if isinstance(each, torch.Tensor) and not isinstance(each, _There)]
    if packet not in _COPYING and any(tensor.dim() or packet in _JOINS for tensor in apart):
        raise RuntimeError(
            f"{packet}: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        )
    if packet in _PRODUCTS and not (tensors[-1].is_floating_point() or tensors[-1].is_complex()):
        raise RuntimeError(f'"{packet}_cuda" not implemented for {tensors[-1].dtype}')


def _is_there(tensor):
    return tensor.device.type == "cuda"


def _bytes(tensor):
    if tensor.layout != torch.strided:
        return sum(_bytes(part) for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values()))
    return tensor.numel() * tensor.element_size()


def _held(tensor):
    return tensor.held if isinstance(tensor, _There) else tensor
