"""An index in PostgreSQL whose writers and server are killed, and that many write and read at once."""

import tempfile
from pathlib import Path

import pytest

from benchmarks import postgres_durability as durability

pytestmark = [pytest.mark.process, pytest.mark.database]


@pytest.fixture
def server():
    """A server of its own, which may be killed, in a short path: the name of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = durability.Server(Path(folder, "data"))
        yield made
        made.stop()


def test_a_writer_that_is_killed_loses_nothing_and_no_reader_sees_a_half_state(server):
    found = durability.kills(3, server.url, least=30)
    assert (
        found["kept"] == 3 and found["answers"] >= 30 and not found["lost"] + found["wrong"] + found["raw"] + found["unreachable"]
    )


def test_a_server_that_is_killed_loses_nothing_and_goes_on(server):
    found = durability.kills(1, server.url, server.kill, least=10)
    assert found["kept"] == 1 and found["answers"] >= 10 and not found["lost"] + found["wrong"] + found["raw"]


def test_writers_and_readers_side_by_side_lose_nothing_and_see_whole_states(server):
    found = +durability.side_by_side(3, 3, 4, server.url)
    assert found.keys() == {"changes", "answers"}
