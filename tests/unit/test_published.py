"""Published settings: each system by one call as its paper configures it, and the table of docs/published.md."""

import ast
import json
import re
from pathlib import Path

import pytest

from graph_retrievers import GraphIndex, Node, Pipeline
from graph_retrievers.cli import main
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Edge
from graph_retrievers.operators import VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.signatures import class_knobs
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.systems.grag.model import DocumentGraphNetwork
from graph_retrievers.systems.grag.retriever import GRAG, fit_grag
from graph_retrievers.systems.lesegr.retriever import LeSeGR, fit_lesegr
from graph_retrievers.systems.registry import build_retriever, retriever_class, retriever_names
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.strategies import Eager
from langchain_graph_retrievers import EagerRetriever, LeSeGRRetriever
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import EagerRetriever as LlamaEager
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from tests.helpers import HashEmbedding, linked_index

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
CLASSES = {kind.__name__: kind for name in retriever_names() for kind in [retriever_class(name)[0]]}

# Keywords that no publication settles: what the caller brings, or what has no place in the original.
BROUGHT = {"first", "language_model", "linking", "chain_search", "passage_type", "checkpoint", "parser", "planner", "reranker"}
BROUGHT |= {"extractor", "traversal", "scorer", "signal", "sparse"}
# Nodes that are looked at: all, in the original.
BOUNDS = {("LeSeGR", "candidates"), ("GRetriever", "candidates")}

# What the papers and the published code say: section 4.1 of FastInsight, of MoR and 5.1 of CG-RAG, appendix of G-RAG's section 4,
# Algorithm 1 and the settings of QASA, config_utils.py of HippoRAG 2, constants.py of LightRAG 1.5, operate.py of PathRAG,
# retrieval.py of G-Retriever, gar.py of pyterrier_adaptive, graph-retriever 0.8.0, sections 3 of HyDE and IRCoT.
PAPERS = {
    "re2": ["VectorSearch(k=100, returned=True", "backfill=False"],
    "fastinsight": ["VectorSearch(k=10, ", "alpha=0.2", "STeX(beta=1.0, nodes_per_round=10, budget=100)", "budget=100,"],
    "gar": ["VectorSearch(k=1000, ", "AdaptiveReranking(budget=1000, nodes_per_round=16)"],
    "ppr": ["VectorSearch(k=5, ", "damping=0.5", "passage_weight=0.05"],
    "hipporag": ["FactLinking(limit=5", "damping=0.5, passage_weight=0.05, synonyms=0.8"],
    "spreading": ["steps=3", "decay=0.7", "threshold=0.01", "gate='cosine'", "hub_exponent=0.0", "limit=30, length=4", "k=30"],
    "eager": ["VectorSearch(k=4, ", "EagerTraversal(adjacent_k=10)", "k=5, backfill=False"],
    "mmr": ["VectorSearch(k=4, ", "adjacent_k=10", "lambda_mult=0.5", "min_mmr_score=-inf", "k=5, backfill=False"],
    "scored": ["VectorSearch(k=4, ", "ScoredTraversal(adjacent_k=10)", "k=5, backfill=False"],
    "hyde": ["VectorSearch(", "documents=8"],
    "ircot": ["BM25Search(", "passages=4, budget=15, steps=8", "backfill=False"],
    "lightrag": [
        "VectorSearch(k=40, ",
        "VectorSearch(k=20, ",
        "FactSearch(limit=40",
        "threshold=0.2",
        "pick='vector'",
        "related=5",
    ],
    "linear-rag": ["threshold=0.4, iterations=4, damping=0.85"],
    "pathrag": ["VectorSearch(k=40, ", "paths=15, alpha=0.8, theta=0.3", "chains='hits'", "threshold=0.2"],
    "g-retriever": ["VectorSearch(k=3, ", "seed_edges=3, cost=0.5", "facts=True", "k=1000, backfill=False"],
    "mor": ["seeds=5, matches=10, candidates=100", "fill=True, structure=True"],
    "lesegr": ["direction='in'"],
    "g-rag": ["VectorSearch(", "depth=100"],
}


@pytest.fixture(scope="module")
def index():
    nodes = [
        Node("p", "Ada wrote a program. An engine.", type="passage"),
        Node("ada", "A mathematician.", "Ada", "person"),
        Node("engine", "A machine.", "Engine", "thing"),
    ]
    edges = [Edge("p", "ada", "mentions"), Edge("ada", "engine", "wrote for")]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(8), edge_signals=True)


def defaults(kind):
    return {knob.name: knob.default for of in (Retriever, kind) for knob in class_knobs(of)}


@pytest.mark.parametrize("kind", CLASSES.values())
def test_published_settings_are_keywords_and_leave_none_out(kind):
    if kind.PUBLISHED is None:
        return
    own = {knob.name for knob in class_knobs(kind)}
    assert kind.PUBLISHED.keys() <= defaults(kind).keys()
    left_out = {name for name in own - kind.PUBLISHED.keys() - BROUGHT if (kind.__name__, name) not in BOUNDS}
    assert not left_out, "a keyword is published, or named above as one that no publication settles"


@pytest.mark.parametrize(("name", "said"), PAPERS.items())
def test_each_system_is_what_its_paper_says(index, name, said):
    # As if it were trained; without, it is refused.
    options = {"network": DocumentGraphNetwork(8, **GRAG.PUBLISHED["network"])} if name == "g-rag" else {}
    for made in (build_retriever(name, index, published=True, **options), retriever_class(name)[0].published(index, **options)):
        shown = repr(made)
        assert [part for part in said if part not in shown] == [], shown
        assert made.backfill == (name in ("hipporag", "hyde"))


def test_the_networks_are_those_of_the_papers(index, data, tmp_path):
    search = LeSeGR.published(index).operator.operators[-1]
    assert (search.hops, search.context) == (None, None)
    told = {"encoder": "transformer", "layers": 2, "hidden": 1024, "heads": 4, "hub_exponent": 0.0, "dimension": 8}
    assert search.model.config() == {**told, "sparse_gate": True, "dense_gate": True}
    assert LeSeGR.published(index).lacks()
    indexed = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    options = {"parser": lambda text: MeaningGraph(tuple(text.strip(".").split()), ()), "training": {"epochs": 1}}
    fit_grag(data, indexed, tmp_path, published=True, **options)
    network = json.loads((tmp_path / "g-rag.json").read_text())["network"]
    assert (network["kind"], network["layer"], network["hidden"], network["layers"]) == ("published", "gcn", 8, 2)
    assert (network["dropout"], network["paths"]) == (0.1, True)


def test_the_table_of_the_page_has_what_differs_and_nothing_else():
    table = PAGE.partition("| class | keyword | default | published | why |\n")[2].partition("\n\n")[0]
    told = {}
    for line in table.splitlines()[1:]:
        names, keyword, default, published, why = (cell.strip() for cell in line.strip("|").split(" | "))
        assert why
        for name in re.findall(r"`(\w+)`", names):
            assert (name, keyword.strip("`")) not in told
            told[name, keyword.strip("`")] = tuple(ast.literal_eval(cell.strip("`")) for cell in (default, published))
    differ = {
        (name, keyword): (defaults(kind)[keyword], value)
        for name, kind in CLASSES.items()
        for keyword, value in (kind.PUBLISHED or {}).items()
        if defaults(kind)[keyword] != value
    }
    assert told == differ


def test_the_page_names_those_without_a_difference_and_those_without_a_publication():
    named = {word: re.findall(r"`(\w+)`", PAGE.partition(word)[2].partition("\n\n" if "no" in word else "\n")[0]) for word in (
        "The defaults of these are what was published:", "and `published` is refused:",
    )}  # fmt: skip
    same = [n for n, k in CLASSES.items() if k.PUBLISHED is not None and all(defaults(k)[w] == v for w, v in k.PUBLISHED.items())]
    none = [name for name, kind in CLASSES.items() if kind.PUBLISHED is None]
    assert [sorted(names) for names in named.values()] == [sorted(same), sorted(none)]


def test_nothing_depends_on_the_index():
    # Titles are ordinary words of long texts: by default hubs are damped, and the ranking is fused with hybrid search.
    nodes = [Node(str(n), "the page on the index of the table " * 5, ("Index", "Table", "Page")[n % 3]) for n in range(36)]
    manual = GraphIndex.from_nodes(nodes, [("0", str(n)) for n in range(1, 36)], embedding=HashEmbedding())
    for name in ("fastinsight", "ppr", "spreading"):
        assert "ReciprocalRankFusion" in repr(build_retriever(name, manual))
        assert "ReciprocalRankFusion" not in repr(build_retriever(name, manual, published=True))
    assert "threshold=0.001" in repr(SpreadingActivation(manual)) and "hub_exponent=1.0" in repr(SpreadingActivation(manual))
    shown = repr(SpreadingActivation.published(manual))
    assert "threshold=0.01," in shown and "hub_exponent=0.0" in shown


def test_keywords_and_what_a_name_stands_for_take_precedence(index):
    assert (Eager.published(index).k, Eager.published(index, k=7, backfill=True).k) == (5, 7)
    assert "gate='uniform'" in repr(build_retriever("spreading-uniform", index, published=True))
    fused = repr(build_retriever("fastinsight-hybrid", index, published=True))
    assert "ReciprocalRankFusion" in fused and "backfill=False" in fused
    assert not build_retriever("gar", index, published=True, budget=50).backfill
    assert "budget=50, nodes_per_round=16" in repr(build_retriever("gar", index, published=True, budget=50))


@pytest.mark.parametrize("name", ["walk-fusion", "path-reranking", "decomposition", None])
def test_what_nobody_has_published_is_refused(index, name):
    with pytest.raises(InvalidArgumentError, match="has no published settings, as nobody has published it"):
        build_retriever(name, index, published=True)


def test_a_composition_of_ones_own_may_have_published_settings(index):
    class Mine(Retriever):
        def __init__(self, index, *, depth=3, **options):
            super().__init__(index, VectorSearch(depth), **options)

    with pytest.raises(InvalidArgumentError, match="Mine has no published settings"):
        Mine.published(index)
    Mine.PUBLISHED = {"depth": 2}
    assert len(Mine.published(index, backfill=False).retrieve("Ada?")) == 2


# -- the frameworks and the command line -------------------------------------------------------------------------------


def test_langchain_takes_published(index):
    for made in (
        EagerRetriever.from_index(index, published=True),
        LangChainRetriever.from_index(index, system="eager", published=True),
        EagerRetriever.from_texts(["a", "b"], HashEmbedding(), published=True),
    ):
        assert (made._engine().backfill, made._engine().k if made.k is None else made.k) == (False, 5)
    assert EagerRetriever.from_index(index, published=True, k=2, start_k=1).model_dump()["start_k"] == 1
    assert "transformer" in str(LeSeGRRetriever.from_index(index, published=True).model)
    with pytest.raises(InvalidArgumentError, match="no published settings"):
        LangChainRetriever.from_index(index, published=True)
    with pytest.raises(InvalidArgumentError, match="no published settings"):
        LangChainRetriever.from_index(index, system=Pipeline(VectorSearch()), published=True)
    assert EagerRetriever.from_index(index).backfill


def test_llama_index_takes_published(index):
    for made in (
        LlamaEager.from_index(index, published=True),
        LlamaRetriever.from_index(index, system="eager", published=True),
        LlamaEager.from_defaults(index, published=True),
    ):
        assert (made.engine.backfill, made.similarity_top_k) == (False, 5)
    assert LlamaEager.from_index(index, published=True, similarity_top_k=2).similarity_top_k == 2
    for system in (None, Pipeline(VectorSearch())):
        with pytest.raises(InvalidArgumentError, match="no published settings"):
            LlamaRetriever.from_index(index, system=system, published=True)
    assert LlamaEager.from_index(index).engine.backfill


def test_search_takes_published(tmp_path, capsys):
    linked_index().save(tmp_path / "index")

    def found(*flags):
        status = main(["search", str(tmp_path / "index"), "Which engine did Ada Lovelace write for?", "--json", *flags])
        return status, capsys.readouterr()

    status, printed = found("--retriever", "bm25", "--published")
    assert status == 0 and json.loads(printed.out)["hits"]
    status, printed = found("--published")
    assert status == 2 and "name one with --retriever NAME" in printed.err
    status, printed = found("--retriever", "walk-fusion", "--published")
    assert status == 2 and "WalkFusion has no published settings" in printed.err
    kinds = {}
    for flags in ((), ("--published",)):
        status, printed = found("--retriever", "spreading-uniform", *flags)
        kinds[flags] = {hit["kind"] for hit in json.loads(printed.out)["hits"]}
    assert kinds == {(): {"node"}, ("--published",): {"node", "chain"}}


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    nodes = [Node(f"{kind}{n}", f"A page on {word} {n}.") for n in range(4) for kind, word in (("a", "looms"), ("b", "cards"))]
    edges = [Edge(f"a{n}", f"b{n}") for n in range(4)]
    queries = [Query(f"q{n}", f"looms {n}", (f"a{n}", f"b{n}"), split="dev" if n == 3 else "train") for n in range(4)]
    return Dataset("pages", nodes, edges, queries, True)


def test_a_checkpoint_of_the_published_lesegr_is_asked_for(data, tmp_path):
    index = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    training = {"epochs": 1}
    fit_lesegr(data, index, tmp_path / "own", training=training)
    fit_lesegr(data, index, tmp_path / "published", training=training, published=True)
    made = LeSeGR.published(index, checkpoint=tmp_path / "published")
    search = made.operator.operators[-1]
    assert (search.model.encoder, search.model.layers, search.hops, search.direction) == ("transformer", 2, None, "in")
    assert made.lacks() == () and len(made.retrieve("looms 1", k=3)) == 3
    with pytest.raises(InvalidArgumentError, match="was trained with encoder 'sum', not 'transformer'"):
        LeSeGR.published(index, checkpoint=tmp_path / "own")
    with pytest.raises(InvalidArgumentError, match="was trained with hops None, not 1"):
        LeSeGR(index, checkpoint=tmp_path / "published", model={"encoder": "transformer"})
    assert LeSeGR(index, checkpoint=tmp_path / "own").operator.operators[-1].model.encoder == "sum"
    with pytest.raises(InvalidArgumentError, match="Pass either checkpoint= or model="):
        LeSeGR(index, checkpoint=tmp_path / "own", model=search.model)


def test_a_checkpoint_of_the_published_grag_is_asked_for(data, tmp_path):
    def parser(text):
        return MeaningGraph(tuple(text.strip(".").split()), ())

    parser.name = "words"
    index = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    options = {"parser": parser, "training": {"epochs": 1}}
    fit_grag(data, index, tmp_path / "own", first="bm25", **options)
    fit_grag(data, index, tmp_path / "published", published=True, **options)
    made = GRAG.published(index, checkpoint=tmp_path / "published", parser=parser)
    assert made.operator.operators[-1].network.kind == "published" and made.lacks() == ()
    assert len(made.retrieve("looms 1", k=3)) == 3
    with pytest.raises(InvalidArgumentError, match="was trained with a network of kind 'evidence', not 'published'"):
        GRAG.published(index, checkpoint=tmp_path / "own", parser=parser)
    with pytest.raises(InvalidArgumentError, match="was trained with a network of hidden 8, not 16"):
        GRAG(index, checkpoint=tmp_path / "published", network={"hidden": 16}, parser=parser)


def test_fit_takes_published_where_the_default_network_is_another(tmp_path, capsys):
    assert main(["fit", "mor", str(tmp_path), "--out", str(tmp_path / "out"), "--published"]) == 2
    assert "mor has one kind of network; leave out --published" in capsys.readouterr().err
