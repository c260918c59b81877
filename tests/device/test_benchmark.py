"""The benchmark of a GPU runs as it is, where there is one, where one is simulated, and on a processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.accelerator import REAL

ROOT = Path(__file__).resolve().parents[2]
SIZES = "--nodes 300 --edges 1500 --queries 5 --hidden 16 --layers 1 --rounds 1".split()
# It needs torch and transformers, and nothing of these.
RUN = """if True:
    import runpy, sys
    from contextlib import nullcontext
    sys.modules |= dict.fromkeys(("faiss", "bm25s", "langchain", "langchain_core", "llama_index"))
    sys.path[:0] = ["benchmarks"]
    kind, *sys.argv[1:] = sys.argv[1:]
    from tests.accelerator import Accelerator
    with Accelerator() if kind == "device" else nullcontext():
        runpy.run_path("benchmarks/gpu.py", run_name="__main__")"""


@pytest.mark.parametrize(("kind", "compared"), [("device", "CPU / GPU"), ("processor", "single / batch")])
def test_the_benchmark_runs_and_both_find_the_same(kind, compared):
    if kind == "processor" and REAL:
        pytest.skip("the benchmark uses the GPU of this machine")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", RUN, kind, *SIZES], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if compared in line]
    assert len(lines) == 8 and all(line.endswith("equal") for line in lines), done.stdout
