"""The simulated device keeps the rules of a GPU, and counts what it is asked."""

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.accelerator import DEVICE, REAL, Accelerator, Counts


def put(values):
    return torch.tensor(values, device=DEVICE)


def matrix(device):
    parts = [torch.tensor(values, device=device) for values in ([0, 1, 1], [0], [1.0])]
    return torch.sparse_csr_tensor(*parts, (2, 2), check_invariants=False)


def test_outside_there_is_no_device_again():
    with Accelerator():
        assert torch.cuda.is_available() and put([1.0]).is_cuda
    assert torch.cuda.is_available() == REAL


@pytest.mark.parametrize(
    "mixed",
    [
        lambda here, there: here + there,
        lambda here, there: there.mul_(here),
        lambda here, there: torch.cat([here, there]),
        lambda here, there: torch.stack([here[0], there[0]]),
        lambda here, there: here[there.long()],
        lambda here, there: there.index_put_((put([0]),), here[:1]),
        lambda here, there: there.index_copy_(0, torch.tensor([0]), there[:1]),
        lambda here, there: matrix(DEVICE) @ here,
        lambda here, there: matrix("cpu") @ there,
        lambda here, there: torch.nn.Linear(2, 1).to(DEVICE)(here),
        lambda here, there: torch.rand(2, device=DEVICE, generator=torch.Generator()),
    ],
)
def test_what_is_on_two_devices_is_refused(accelerator, mixed):
    with pytest.raises((RuntimeError, NotImplementedError), match="device"):
        mixed(torch.ones(2), put([1.0, 1.0]))


def test_a_number_of_the_processor_and_its_indices_are_taken(accelerator):
    there = put([1.0, 2.0])
    assert (there * torch.tensor(2.0)).tolist() == [2.0, 4.0] and there[torch.tensor([1])].tolist() == [2.0]
    assert there[[1, 0]].tolist() == [2.0, 1.0] and there[[True, False]].tolist() == [1.0] and there[[]].tolist() == []


def test_numpy_does_not_read_it_and_whole_numbers_are_not_multiplied(accelerator):
    for read in (lambda there: there.numpy(), np.asarray):
        with pytest.raises(TypeError, match="cuda:0 device type tensor"):
            read(put([1.0]))
    with pytest.raises(RuntimeError, match="not implemented for"):
        put([[1, 2]]) @ put([[1], [2]])


def test_writing_views_shapes_gradients_and_copies(accelerator):
    there = put([1.0, 2.0, 3.0])
    there[1:][[0]] = 5.0
    there[[0, 2]] = put([7.0, 8.0])
    there.unsqueeze_(0)
    assert there.tolist() == [[7.0, 5.0, 8.0]] and there.shape == (1, 3)
    layer = torch.nn.Linear(3, 1).to(DEVICE)
    layer(there).sum().backward()
    assert layer.weight.grad.tolist() == there.tolist() and layer.weight.grad.device == DEVICE
    before, twin = layer.weight.tolist(), copy.deepcopy(layer)
    torch.optim.Adam(layer.parameters()).step()
    assert twin.weight.tolist() == before != layer.weight.tolist()


@pytest.mark.parametrize(
    ("asked", "reads", "uploads"),
    [
        (lambda t: t.cpu(), 1, 0),
        (lambda t: t.to("cpu"), 1, 0),
        (lambda t: t.tolist(), 1, 0),
        (lambda t: t[0].item(), 1, 0),
        (lambda t: bool((t > 0).all()), 1, 0),
        (lambda t: t.nonzero(), 1, 0),
        (lambda t: t[t > 1], 1, 0),
        (lambda t: t.unique(), 1, 0),
        (lambda t: torch.repeat_interleave(t.long()), 1, 0),
        (lambda t: torch.repeat_interleave(t.long(), output_size=6), 0, 0),
        (lambda t: t.masked_fill(t > 1, 0.0), 0, 0),
        (lambda t: t[put([0, 1])], 0, 1),
        (lambda t: t[[0, 1]], 0, 1),
        (lambda t: t.to(DEVICE), 0, 0),
        (lambda t: torch.ones(3).to(DEVICE), 0, 1),
        (lambda t: torch.zeros(3, device=DEVICE), 0, 0),
        (lambda t: torch.cat([t, t]).view(2, 3).T, 0, 0),
    ],
)
def test_what_waits_for_the_device_is_counted(accelerator, asked, reads, uploads):
    there = put([1.0, 2.0, 3.0])
    before = accelerator.now()
    asked(there)
    counts = accelerator.since(before)
    assert (counts.reads, counts.uploads) == (reads, uploads)
    assert (counts.down > 0) <= (reads == 1) and counts.up == 0 if not uploads else counts.up in (12, 16)


def test_operations_are_counted_and_views_are_none(accelerator):
    there = put([1.0, 2.0, 3.0, 4.0])
    before = accelerator.now()
    there.view(2, 2).T[0] + 1
    assert accelerator.since(before) == Counts(operations=1)


@pytest.mark.skipif(REAL, reason="a tensor of a GPU can be pickled: its reader opens the GPU")
def test_a_pickle_of_its_tensors_is_refused(accelerator):
    with pytest.raises(AssertionError, match="opens the device where it is read"):
        pickle.dumps(put([1.0]))
