"""The device that the tests of this folder run on."""

import pytest

from tests.accelerator import Accelerator


@pytest.fixture
def accelerator():
    """The GPU of this machine, or a simulated one; everything in the test may use ``device="cuda"``."""
    with Accelerator() as made:
        yield made
