"""The torch device that holds an index."""

from __future__ import annotations

import torch

from graph_retrievers.errors import DeviceError, shown


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """Return a torch device of this machine: the CPU by default; for CUDA, with the index of the device.

    Raises DeviceError if the name is not that of a torch device, or the machine does not have it.
    """
    try:
        result = torch.device(device if device is not None else "cpu")
    except (RuntimeError, TypeError, ValueError) as error:
        raise DeviceError(f"{shown(device)} is not a torch device; pass 'cpu', 'cuda' or 'cuda:<n>'.") from error
    if result.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (result.index or 0) >= count:
            raise DeviceError(f"Device {str(result)!r} is not there: torch sees {count} CUDA devices. Pass device='cpu'.")
    try:
        return torch.empty(0, device=result).device
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        raise DeviceError(f"Device {str(result)!r} is not there ({error}). Pass device='cpu'.") from error
