"""The core without an index: operators on a backend of a few lines, also where the rest of the package is absent."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from graph_retrievers.core.candidates import Candidates, reached
from graph_retrievers.core.compositions import FirstStage, Loop, Pipeline, ReciprocalRankFusion
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Near, Nearest, Neighbors
from graph_retrievers.core.trace import Trace

ENGINE = Path(__file__).resolve().parents[2] / "shared" / "graph_retrievers"
LINKS = {0: [1, 3], 1: [0, 2], 2: [1], 3: [0]}


class Lists:
    """Answers from a dictionary of links, and from one list of best nodes for every question."""

    def __init__(self, texts, k=10):
        self.size, self.ids = 4, tuple("abcd")
        self.queries = SimpleNamespace(texts=texts, k=k, index=SimpleNamespace(signals={"dense": None}))
        self.calls = []

    def nearest(self, asked):
        self.calls.append(len(asked))
        return [(np.array([2, 0])[: request.k], np.array([0.9, 0.5])[: request.k]) for _, request in asked]

    def neighbors(self, asked):
        self.calls.append(len(asked))
        found = []
        for _, request in asked:
            pairs = [(place, node) for place, row in enumerate(request.nodes.tolist()) for node in LINKS[row]]
            owner, node = np.array(pairs, np.int64).reshape(-1, 2).T
            found.append(Near(owner, node))
        return found


class Search(Operator):
    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, k):
        self.k = k

    def search(self, question, candidates):
        nodes, scores = yield Nearest(self.k)
        return Candidates.seeds(nodes, scores, self.name)


class Expand(Operator):
    kind = OperatorKind.GRAPH_SEARCH

    def search(self, question, candidates):
        near = yield Neighbors(candidates.nodes)
        return candidates.joined(reached(candidates, near.owner, near.node, np.full(len(near.node), 0.1), self.name))


def ranked(operator, count=2):
    backend = Lists(["?"] * count)
    questions = [Question(backend, place) for place in range(count)]
    trace = Trace()
    return run(backend, [operator.stepped(question, Candidates.none()) for question in questions], trace), backend, trace


def test_a_batch_is_one_call_a_step_and_each_question_gets_its_own_list():
    found, backend, trace = ranked(Pipeline(Search(1), Expand()), 3)
    assert [each.nodes.tolist() for each in found] == [[2, 1]] * 3
    assert found[0].trails.tolist() == [[-1, 2], [2, 1]]
    assert backend.calls == [3, 3]
    assert [(call.request, call.operators, call.questions) for call in trace] == [
        (Nearest, ("Search",), 3),
        (Neighbors, ("Expand",), 3),
    ]


@pytest.mark.parametrize(
    ("operator", "nodes"),
    [
        (Pipeline(Search(2), Expand()), [2, 0, 1, 3]),
        (Pipeline(Search(1), Loop(Expand(), budget=3)), [2, 1, 0]),
        (ReciprocalRankFusion(Search(1), Search(2), constant=1), [2, 0]),
        (FirstStage(Search(2), 5), [2, 0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_compositions(operator, nodes):
    assert ranked(operator)[0][0].nodes.tolist() == nodes


def test_the_core_runs_where_the_rest_of_the_package_is_absent(tmp_path):
    package = tmp_path / "graph_retrievers"
    shutil.copytree(ENGINE / "core", package / "core", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("errors.py", "arguments.py"):
        shutil.copy(ENGINE / file, package / file)
    (package / "__init__.py").write_text("")
    (tmp_path / "test_core.py").write_text(Path(__file__).read_text(encoding="utf-8"))
    code = (
        "import sys, test_core as t; t.test_a_batch_is_one_call_a_step_and_each_question_gets_its_own_list(); "
        "print(sorted(name for name in sys.modules if name.startswith(('graph_retrievers.', 'torch', 'transformers'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "graph_retrievers.core.driver" in done.stdout and "torch" not in done.stdout


def test_the_driver_needs_few_modules():
    code = "import sys, graph_retrievers.core.driver; print(sum(name.startswith('graph_retrievers.') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 12
