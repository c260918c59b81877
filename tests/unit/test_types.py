"""What mypy and pyright know of the arguments of framework classes, which are made at run time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")
ROOT = Path(__file__).resolve().parents[2]

RIGHT = """
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

import langchain_graph_retrievers as lc
import llama_graph_retrievers as li
from graph_retrievers import BM25, GAR, FastInsight, GraphIndex, HyDE, Hybrid, IndexStore, Retriever, SpreadingActivation
from graph_retrievers.operators import BM25Search


def use(
    index: GraphIndex, documents: list[Document], store: InMemoryVectorStore, nodes: list[TextNode], vectors: VectorStoreIndex
) -> None:
    fast = lc.FastInsightRetriever(index=index, budget=3, k=5, filter={"year": 1843}, tags=["docs"], time_limit=2.0)
    fast.budget = 4
    lc.GARRetriever.from_index(index, published=True, nodes_per_round=5)
    lc.WalkFusionRetriever.from_documents(documents, None, edges=[("cites", "$id")], per_source=2, title_key="title")
    lc.SpreadingActivationRetriever.from_vectorstore(store, edges=[("a", "b")], chains="hits", metric="cosine")
    lc.PPRRetriever.from_texts(["a loom"], ids=["a"], titles=["Loom"], damping=0.5, provenance=True)
    lc.GraphRetriever.from_documents(documents, system="ppr", k=3, show_progress=True)
    lc.GraphRetriever.from_index(index, system="gar", per_source=1)
    found: list[Document] = fast.invoke("Which loom?")
    li.FastInsightRetriever(index, budget=3, similarity_top_k=5, filters={"year": 1843})
    li.GARRetriever.from_index(index, published=True, nodes_per_round=5)
    li.WalkFusionRetriever.from_defaults(nodes=nodes, edges=[("a", "b")], per_source=2, similarity_top_k=3)
    li.MMRRetriever.from_defaults(vectors, embed_model=None, time_limit=1.5)
    li.GraphRetriever.from_defaults(index=vectors, system="ppr", damping=0.5)
    li.GraphRetriever(fast._engine(), similarity_top_k=2, provenance=False)
    li.GraphRetriever.from_defaults(nodes=nodes, edges=[("a", "b")], similarity_top_k=4, published=True)
    li.GraphRetriever.from_index(index, system=BM25Search(), backfill=False)
    GraphIndex.from_texts(["a loom"], titles=["Loom"], metric="dot")
    GraphIndex.from_documents(documents, edges=[("cites", "$id")], bm25=False)
    GraphIndex.from_nodes([], show_progress=False)
    IndexStore("folder", title_key="name")
    BM25(index, k=3)
    Hybrid(index, fusion="rrf", time_limit=1.0)
    GAR(index, budget=5, name="GAR of five")
    FastInsight(index, alpha=0.5, types=["page"])
    SpreadingActivation(index, decay=0.5, k=9, per_source=2)
    HyDE(index, search="bm25", share_batches=True)
    Retriever(index, BM25Search(), batch_size=8)
"""

WRONG = [
    ("fast.budget = 4", "fast.budgett = 4"),
    ("index=index, budget=3", "index=index, budgett=3"),
    ("published=True, nodes_per_round=5)\n    lc.", "published=True, nodes_per_rounds=5)\n    lc."),
    ('title_key="title"', 'title_keys="title"'),
    ('metric="cosine"', 'metrics="cosine"'),
    ("damping=0.5, provenance", 'damping="half", provenance'),
    ("k=3, show_progress", "kk=3, show_progress"),
    ("per_source=1)", "per_sources=1)"),
    ("similarity_top_k=5", "similarity_topk=5"),
    ("similarity_top_k=3", "similarity_topk=3"),
    ("time_limit=1.5", "time_limits=1.5"),
    ("published=True, nodes_per_round=5)\n    li.", "published=True, nodes_per_rounds=5)\n    li."),
    ("similarity_top_k=2", "similarity_topk=2"),
    ('edges=[("a", "b")], similarity_top_k=4', 'edgess=[("a", "b")], similarity_top_k=4'),
    ("damping=0.5)\n    li.", "dampings=0.5)\n    li."),
    ("backfill=False)", "backfil=False)"),
    ('metric="dot"', 'metrics="dot"'),
    ("bm25=False", "bm25=5"),
    ("[], show_progress", "[], show_progres"),
    ('"folder", title_key', '"folder", title_keys'),
    ("BM25(index, k=3)", "BM25(index, kk=3)"),
    ("time_limit=1.0", "timelimit=1.0"),
    ('name="GAR of five"', 'names="GAR of five"'),
    ('types=["page"]', "types=5"),
    ("k=9, per_source=2", "k=9, persource=2"),
    ("share_batches=True", "share_batch=True"),
    ("batch_size=8", "batchsize=8"),
]


def mypy(folder):
    return [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", folder / "cache", "."]


def pyright(folder):
    return [Path(sys.executable).parent / "basedpyright", "--pythonpath", sys.executable, "--level", "error", "."]


def lines_with_errors(checker, folder):
    """Lines that a checker calls wrong, by file."""
    environment = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}", "HOME": str(folder)}
    answer = subprocess.run(checker(folder), cwd=folder, env=environment, capture_output=True, text=True)
    found = {}
    for name, line in re.findall(r"(\w+\.py):(\d+):.*error", answer.stdout):
        found.setdefault(name, set()).add(int(line))
    assert answer.returncode in (0, 1), answer.stdout + answer.stderr
    return found


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_take_right_arguments_and_refuse_misspelt_ones(checker, tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    expected = {}
    for number, (old, new) in enumerate(WRONG):
        assert RIGHT.count(old) == 1, old
        changed = RIGHT.replace(old, new)
        (tmp_path / f"wrong{number}.py").write_text(changed)
        place = changed.index(new.split("\n")[0])
        expected[f"wrong{number}.py"] = {changed[:place].count("\n") + 1}
    assert lines_with_errors(checker, tmp_path) == expected


def test_the_typed_files_are_current():
    done = subprocess.run([sys.executable, ROOT / "tools" / "stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
