"""Choosing the device that holds an index."""

from __future__ import annotations

import torch

from graph_retrievers.errors import DeviceError

__all__ = ["resolve_device"]


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """Return a device that exists on this machine.

    Parameters
    ----------
    device : str or torch.device, optional
        A torch device such as ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. ``None`` (default) takes the CPU: moving
        an index to a GPU is a decision, not a side effect.

    Returns
    -------
    torch.device
        The device, with its index filled in for CUDA.

    Raises
    ------
    DeviceError
        If the name is not a torch device or the machine does not have it.
    """
    try:
        chosen = torch.device(device if device is not None else "cpu")
    except (RuntimeError, TypeError) as error:
        raise DeviceError(f"{device!r} is not a torch device; pass 'cpu', 'cuda' or 'cuda:<n>'.") from error
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (chosen.index or 0) >= count:
            raise DeviceError(f"Device {str(chosen)!r} is not there: torch sees {count} CUDA devices. Pass device='cpu'.")
        return torch.device("cuda", chosen.index if chosen.index is not None else torch.cuda.current_device())
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        raise DeviceError(f"Device {str(chosen)!r} is not there ({error}). Pass device='cpu'.") from error
    return chosen
