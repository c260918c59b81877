"""A device "cuda" that a processor plays: tensors of it have their numbers on the CPU, and are not mixed with those of the CPU."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda:0")
_INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
_COPYING = (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.copy_)


class _There(torch.Tensor):
    """A tensor on the device."""

    device = property(lambda self: DEVICE)


class SimulatedAccelerator(TorchFunctionMode):
    """Inside, ``device="cuda"`` works as on a machine with one; operations on tensors of both devices raise as they do there.

    Sparse tensors, of which torch makes no subclass, count as tensors of either device.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        there = any(isinstance(tensor, _There) for tensor in tensors)
        if there and func not in _COPYING:
            _check(func, args, tensors)
        named = [torch.device(leaf) for leaf in leaves if _is_device(leaf)]
        if named or func is torch.Tensor.cpu:
            there = bool(named) and named[0].type == "cuda"
        elif func is torch.Tensor.copy_:
            there = isinstance(args[0], _There)
        found = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        return tree_map(_moved, found) if there else found


def _check(func, args, tensors):
    if func is torch.Tensor.numpy:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")
    indexing = func in _INDEXING
    if indexing and not isinstance(args[0], _There):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    # What a tensor of the device is indexed by may be on the CPU.
    joined = tree_leaves((args[0], args[2:])) if indexing else tensors
    apart = [each for each in joined if isinstance(each, torch.Tensor) and not isinstance(each, _There) and not _is_sparse(each)]
    if any(tensor.dim() for tensor in apart):
        raise RuntimeError(f"{func.__name__}: Expected all tensors to be on the same device, but found cuda:0 and cpu")


def _is_device(leaf):
    return isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf.partition(":")[0] in ("cpu", "cuda"))


def _is_sparse(tensor):
    return tensor.layout != torch.strided


def _held(leaf):
    """Return a tensor as one of the CPU, and the CPU in place of a device."""
    if isinstance(leaf, _There):
        return leaf.as_subclass(torch.Tensor)
    return torch.device("cpu") if _is_device(leaf) else leaf


def _moved(leaf):
    return leaf.as_subclass(_There) if isinstance(leaf, torch.Tensor) and not _is_sparse(leaf) else leaf
