"""Shared fixtures: the devices of this machine, and the folder with real data where it exists."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

# How long an example takes depends on the machine, and which are drawn on the test alone, so that two runs have one result.
settings.register_profile("tests", deadline=None, derandomize="GRAPH_RETRIEVERS_CASES" not in os.environ)
settings.load_profile("tests")

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request):
    """Every device of this machine: the same tests must hold on each."""
    return request.param


@pytest.fixture(scope="session")
def shared_folder():
    """The folder with real graphs and models; tests that need it are skipped where it does not exist."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared"
    folder = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", default)).resolve()
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set GRAPH_RETRIEVERS_SHARED to the folder that holds data/ and models/")
    return folder


@pytest.fixture(scope="session")
def kept_vectors(tmp_path_factory):
    """A cache of vectors for all tests of a run that embed the same texts and do not look at the cache."""
    folder = tmp_path_factory.getbasetemp()
    # Workers have folders of their own inside that of the run.
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "vectors"


def pytest_xdist_make_scheduler(config, log):
    """Give all tests of the server that speaks Bolt to one worker, since a server takes a minute of CPU to warm up."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FilesAndServer(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "arcadedb" if "arcadedb" in nodeid.partition("[")[2] else super()._split_scope(nodeid)

    return FilesAndServer(config, log)


def pytest_collection_modifyitems(items):
    """Mark tests by what they need: a database, a device, or minutes, as the random graphs of ``property`` do."""
    for item in items:
        if {"cypher_server", "postgres_server"} & {*item.fixturenames}:
            item.add_marker("database")
        if item.path.parent.name == "property":
            item.add_marker("slow")
        if item.path.parent.name == "device":
            item.add_marker("device")
