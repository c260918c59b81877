"""What mypy and pyright know of the arguments of systems, retrievers and framework classes."""

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
from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.schema import TextNode

import langchain_graph_retrievers as lc
import llama_graph_retrievers as li
from graph_retrievers import BM25, GAR, PPR, FastInsight, GraphIndex, HyDE, Hybrid, IndexStore, MoR, Retriever, SpreadingActivation
from graph_retrievers.operators import BM25Search
from graph_retrievers.retrievers import StoreRetriever


def use(
    index: GraphIndex,
    documents: list[Document],
    store: InMemoryVectorStore,
    nodes: list[TextNode],
    vectors: VectorStoreIndex,
    graph: PropertyGraphIndex,
) -> None:
    fast = lc.FastInsightRetriever(index=index, system=FastInsight(budget=3), k=5, filter={"year": 1843}, time_limit=2.0)
    fast.system = "fastinsight(budget=4)"
    fast.k = 4
    lc.GraphRetriever(index=index, system=GAR(nodes_per_round=5))
    lc.WalkFusionRetriever.from_documents(documents, None, edges=[("cites", "$id")], per_source=2, title_key="title")
    lc.SpreadingActivationRetriever.from_vectorstore(store, edges=[("a", "b")], system="spreading", metric="cosine")
    lc.GraphRetriever.from_texts(["a loom"], ids=["a"], titles=["Loom"], system=PPR(damping=0.5), provenance=True)
    lc.GraphRetriever.from_documents(documents, system="ppr", k=3, show_progress=True)
    lc.GraphRetriever(index=index, system={"system": "gar"}, per_source=1)
    lc.GraphRetriever(retriever=Retriever(index, BM25Search()), backfill=False, scope={"year": 1843})
    lc.GraphRetriever(retriever=StoreRetriever(IndexStore("folder"), MoR()), types=["film"])
    found: list[Document] = fast.invoke("Which loom?")
    li.FastInsightRetriever(index, FastInsight(budget=7), similarity_top_k=5, filters={"year": 1843})
    li.GraphRetriever(index=index, system=GAR(budget=6))
    li.WalkFusionRetriever.from_defaults(nodes=nodes, edges=[("a", "b")], per_source=2, similarity_top_k=3)
    li.GraphRetriever.from_defaults(vectors, system="mmr", embed_model=None, time_limit=1.5)
    li.GraphRetriever.from_defaults(index=vectors, system=PPR(damping=0.9))
    li.GraphRetriever(fast.engine, similarity_top_k=2, provenance=False)
    li.GraphRetriever.from_defaults(nodes=nodes, edges=[("a", "b")], similarity_top_k=4, device="cpu")
    li.GraphRetriever(index, BM25Search(), backfill=False)
    li.GraphRetriever(index, lambda given: BM25Search(len(given)), verbose=True)
    li.SpreadingActivationPGRetriever(graph, system=SpreadingActivation(steps=2), types=["Person"])
    GraphIndex.from_texts(["a loom"], titles=["Loom"], metric="dot")
    GraphIndex.from_documents(documents, edges=[("cites", "$id")], bm25=False)
    GraphIndex.from_nodes([], show_progress=False)
    IndexStore("folder", title_key="name")
    Retriever(index, BM25(), k=3)
    Retriever(index, Hybrid(fusion="rrf"), time_limit=1.0)
    Retriever(index, GAR(budget=5), name="GAR of five")
    Retriever(index, FastInsight(alpha=0.5), types=["page"])
    Retriever(index, SpreadingActivation(decay=0.5), k=9, per_source=2)
    Retriever(index, HyDE(search="bm25"), share_batches=True)
    Retriever(index, BM25Search(), batch_size=8)
"""

WRONG = [
    ("fast.k = 4", "fast.kk = 4"),
    ('fast.system = "fast', 'fast.sytem = "fast'),
    ("system=FastInsight(budget=3), k=5", "system=FastInsight(budgett=3), k=5"),
    ("system=FastInsight(budget=3), k=5", "system=FastInsight(budget=3), kk=5"),
    ("system=FastInsight(budget=3), k=5", "budget=3, k=5"),
    ("GAR(nodes_per_round=5)", "GAR(nodes_per_rounds=5)"),
    ('title_key="title"', 'title_keys="title"'),
    ('metric="cosine"', 'metrics="cosine"'),
    ("PPR(damping=0.5)", "PPR(dampin=0.5)"),
    ("PPR(damping=0.5)", 'PPR(damping="half")'),
    ("system=PPR(damping=0.5)", "system=5"),
    ("k=3, show_progress", "kk=3, show_progress"),
    ("per_source=1)", "per_sources=1)"),
    ('backfill=False, scope={"year"', 'backfil=False, scope={"year"'),
    ('types=["film"]', 'type=["film"]'),
    ("FastInsight(budget=7)", "FastInsight(budgett=7)"),
    ("index, FastInsight(budget=7)", "index, 7"),
    ("index, FastInsight(budget=7)", "index, budget=7"),
    ("similarity_top_k=5", "similarity_topk=5"),
    ('similarity_top_k=5, filters={"year"', 'similarity_top_k=5, filter={"year"'),
    ("GAR(budget=6)", "GAR(bugdet=6)"),
    ("index=index, system=GAR(budget=6", "index=index, systm=GAR(budget=6"),
    ("similarity_top_k=3", "similarity_topk=3"),
    ("time_limit=1.5", "time_limits=1.5"),
    ("PPR(damping=0.9)", "PPR(dampings=0.9)"),
    ("similarity_top_k=2", "similarity_topk=2"),
    ('edges=[("a", "b")], similarity_top_k=4', 'edgess=[("a", "b")], similarity_top_k=4'),
    ("backfill=False)", "backfil=False)"),
    ("lambda given: BM25Search(len(given))", "lambda given: len(given)"),
    ("verbose=True", "verbos=True"),
    ("SpreadingActivation(steps=2)", "SpreadingActivation(stepps=2)"),
    ('types=["Person"]', 'type=["Person"]'),
    ('metric="dot"', 'metrics="dot"'),
    ("bm25=False", "bm25=5"),
    ("[], show_progress", "[], show_progres"),
    ('"folder", title_key', '"folder", title_keys'),
    ("Retriever(index, BM25(), k=3)", "Retriever(index, BM25(kk=3))"),
    ("time_limit=1.0", "timelimit=1.0"),
    ('name="GAR of five"', 'names="GAR of five"'),
    ('types=["page"]', "types=5"),
    ("k=9, per_source=2", "k=9, persource=2"),
    ("share_batches=True", "share_batch=True"),
    ("batch_size=8", "batchsize=8"),
]


# Of 8,000 modules that are imported somewhere below, such as those of torch, these decide what is taken and refused.
MYPY = """
[mypy]
follow_imports = skip
[mypy-graph_retrievers.*,langchain_graph_retrievers.*,llama_graph_retrievers.*,langchain_core.*,llama_index.*,pydantic.*]
follow_imports = silent
"""


def mypy(folder):
    (folder / "mypy.ini").write_text(MYPY)
    return [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", "."]


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
