"""The LlamaIndex retrievers: what LlamaIndex asks of a retriever, item by item."""

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from functools import partial

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    Document,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

import graph_retrievers
import llama_graph_retrievers
from graph_retrievers import (
    BM25,
    GAR,
    PPR,
    FastInsight,
    GRetriever,
    HippoRAG,
    Hybrid,
    LightRAG,
    MoR,
    PathRAG,
    Re2,
    SpreadingActivation,
    System,
    Vector,
    WalkFusion,
)
from graph_retrievers.arguments import keywords_of
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, Pipeline, ReciprocalRankFusion, STeX, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.systems.fastinsight import GRanker
from graph_retrievers.systems.system import every_system, read_system
from llama_graph_retrievers import (
    FastInsightRetriever,
    GraphRetriever,
    SimilarityCutoffPostprocessor,
    SpreadingActivationRetriever,
    WalkFusionRetriever,
    provenance,
)
from llama_graph_retrievers.graph_retriever import DefaultsOptions
from tests.helpers import HashEmbedding, linked_index
from tests.integration.llama_corpus import HashEmbed, instrumentation_events, llama_nodes
from tests.remote import engines, random_corpus

SYSTEMS = [
    BM25(),
    FastInsight(),
    GAR(),
    GRetriever(),
    None,
    HippoRAG(),
    Hybrid(),
    LightRAG(),
    MoR(),
    PPR(),
    PathRAG(),
    Re2(),
    SpreadingActivation(),
    Vector(),
    WalkFusion(),
]
QUESTION = "Which loom gave the engine of Charles Babbage its punched cards?"


@pytest.fixture(params=SYSTEMS, ids=str)
def system(request):
    return request.param


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 (made here)


def ids(nodes):
    return [n.node.node_id for n in nodes]


def nodes_alone(found):
    """The nodes, which similarity_top_k counts, without the chains and facts, which come last."""
    nodes = [n for n in found if "kind" not in provenance(n)]
    assert found[: len(nodes)] == nodes
    return nodes


# -- the checklist ------------------------------------------------------------------------------------------------


def test_is_a_base_retriever(system):
    assert isinstance(GraphRetriever(linked_index(), system), BaseRetriever)


def test_every_hit_has_a_score_an_operator_and_a_path_best_first(system, no_settings):
    found = GraphRetriever(linked_index(), system, similarity_top_k=5).retrieve(QUESTION)
    nodes = nodes_alone(found)
    assert len(nodes) == len(set(ids(nodes))) == 5
    scores = [n.score for n in nodes]
    assert all(isinstance(n, NodeWithScore) and isinstance(n.score, float) for n in nodes)
    # Scores that differ by rounding alone count as equal, and stand in the order of the index.
    assert scores == pytest.approx(sorted(scores, reverse=True), rel=1e-6)
    for n in found:
        assert provenance(n)["operator"]
    for n in nodes:
        assert provenance(n)["path"]["nodes"][-1] == n.node.node_id


def test_hits_are_those_of_the_engine(system):
    retriever = GraphRetriever(linked_index(), system, similarity_top_k=7)
    hits = retriever.engine.retrieve(QUESTION, 7)
    nodes = retriever.retrieve(QUESTION)
    assert [(n.node.node_id, n.score, provenance(n)["path"]) for n in nodes] == [(h.id, h.score, h.path.to_dict()) for h in hits]


def test_ten_hits_by_default_and_the_engine_retrievers_own_k_where_it_has_one():
    assert len(FastInsightRetriever(linked_index()).retrieve(QUESTION)) == 10
    assert len(GraphRetriever(Retriever(linked_index(), VectorSearch(), k=3)).retrieve(QUESTION)) == 3


def test_k_beyond_the_corpus_gives_all_of_it(system):
    assert len(nodes_alone(GraphRetriever(linked_index(), system, similarity_top_k=100).retrieve(QUESTION))) == 12


def test_k_of_zero_gives_nothing_and_asks_no_model(system):
    embedding = HashEmbedding()
    retriever = GraphRetriever(linked_index(embedding), system, similarity_top_k=0)
    assert retriever.retrieve(QUESTION) == []
    assert retriever.retrieve_batch([QUESTION, QUESTION]) == [[], []]
    assert embedding.query_calls == 0


@pytest.mark.parametrize("k", [-1, 2.5, True, "3"])
def test_a_k_that_is_none_is_refused(k):
    with pytest.raises(InvalidArgumentError, match="similarity_top_k"):
        GraphRetriever(linked_index(), Vector(), similarity_top_k=k)
    retriever = GraphRetriever(linked_index(), Vector())
    with pytest.raises(InvalidArgumentError, match="similarity_top_k"):
        retriever.similarity_top_k = k


def test_similarity_top_k_can_be_changed():
    retriever = GraphRetriever(linked_index(), Vector())
    retriever.similarity_top_k = 2
    assert len(retriever.retrieve(QUESTION)) == 2


@pytest.mark.parametrize("source", [{"nodes": []}, {"docstore": SimpleDocumentStore()}], ids=["nodes", "docstore"])
def test_no_nodes_is_a_value_error_that_says_so(system, source, no_settings):
    with pytest.raises(EmptyGraphError, match=f"{next(iter(source))} is empty") as caught:
        GraphRetriever.from_defaults(system=system, **source, embed_model=HashEmbed())
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_lists_what_passes_the_filters(system, query):
    index = linked_index()
    late = [name for name, held in zip(index.graph.ids, index.graph.metadata, strict=True) if held["year"] > 1900]
    filters = MetadataFilters(filters=[MetadataFilter(key="year", value=1900, operator=">")])
    found = GraphRetriever(index, system, filters=filters, similarity_top_k=2).retrieve(query)
    assert [(hit.node.node_id, hit.score) for hit in found] == [(name, 0.0) for name in late[:2]]
    # An auto-retriever sends empty filters where a question has no condition.
    for filters in (None, MetadataFilters(filters=[])):
        assert GraphRetriever(index, system, filters=filters).retrieve(query) == []


def test_a_misspelt_keyword_is_refused_and_the_right_ones_are_named():
    with pytest.raises(TypeError, match="similarity_topk.*backfill.*similarity_top_k") as caught:
        FastInsightRetriever(linked_index(), similarity_topk=3)
    assert isinstance(caught.value, InvalidArgumentError) and "'k'" not in str(caught.value)
    for system in ("bm25", VectorSearch()):
        with pytest.raises(TypeError, match="GraphRetriever does not take 'k'.*backfill.*similarity_top_k"):
            GraphRetriever(linked_index(), system, k=3)
    with pytest.raises(TypeError, match="bugdet"):
        FastInsightRetriever.from_defaults(nodes=llama_nodes(), bugdet=3)


def test_a_parameter_of_the_system_is_told_where_it_goes():
    told = r"'budget' is a parameter of the system: {}\(..., system=FastInsight\(budget=...\)\)"
    index = linked_index()
    for make in (FastInsightRetriever, FastInsightRetriever.from_defaults):
        with pytest.raises(TypeError, match=told.format("FastInsightRetriever")):
            make(index, budget=3)
    for system in (FastInsight(), "fastinsight", {"system": "fastinsight"}):
        with pytest.raises(TypeError, match=told.format("GraphRetriever")):
            GraphRetriever(index, system, budget=3)


def test_something_else_than_an_index_or_an_engine_retriever_is_refused():
    index, theirs = linked_index(), VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    for other in (None, Vector(), GraphRetriever(index, Vector())):
        with pytest.raises(
            InvalidArgumentError, match=f"Expected a GraphIndex, or an engine retriever.*, got {type(other).__name__}"
        ):
            GraphRetriever(other)
    engine = Retriever(index, VectorSearch())
    with pytest.raises(InvalidArgumentError, match="system= goes with a GraphIndex, and the Retriever has its own.*system=Vector"):
        GraphRetriever(engine, Vector())
    for told in ("works on a GraphIndex", "to GraphRetriever"):
        with pytest.raises(InvalidArgumentError, match=told):
            FastInsightRetriever(engine)
    for kind in (GraphRetriever, FastInsightRetriever):
        with pytest.raises(InvalidArgumentError, match=rf"{kind.__name__}.from_defaults\(index="):
            kind(theirs)
    with pytest.raises(InvalidArgumentError, match="system is the class Vector; pass an object of it"):
        GraphRetriever(index, Vector)


PRESETS = [kind for kind in vars(llama_graph_retrievers).values() if isinstance(getattr(kind, "system", None), System)]


def test_six_classes_have_a_system_preset():
    names = ("FastInsight", "SpreadingActivation", "MoR", "LeSeGR", "GRAG", "WalkFusion")
    presets = {kind.__name__: kind for kind in PRESETS if issubclass(kind, GraphRetriever)}
    assert presets.keys() == {f"{name}Retriever" for name in names}
    index = linked_index()
    for name in names:
        kind, system = presets[f"{name}Retriever"], getattr(graph_retrievers, name)
        assert kind.system == system()
        preset, same = kind(index, similarity_top_k=5), GraphRetriever(index, system(), similarity_top_k=5)
        assert preset.system == preset.engine.system == system() and type(preset.system) is system
        assert preset.retrieve(QUESTION) == same.retrieve(QUESTION)
        assert repr(preset) == f"{name}Retriever(12 nodes, 10 edges, similarity_top_k=5)"
        for make in (kind, kind.from_defaults):
            with pytest.raises(InvalidArgumentError, match=rf"{name}Retriever runs {name}, got GAR\(\).*GraphRetriever"):
                make(index, system=GAR())
            with pytest.raises(InvalidArgumentError, match="Unknown system"):
                make(index, system="pprr")


def test_the_system_of_a_preset_can_be_changed():
    index, wanted = linked_index(), FastInsight(budget=4, nodes_per_round=2)
    for system in (
        wanted,
        "fastinsight(budget=4, nodes_per_round=2)",
        {"system": "fastinsight", "budget": 4, "nodes_per_round": 2},
    ):
        retriever = FastInsightRetriever(index, system=system, backfill=False)
        assert retriever.system == wanted and len(retriever.retrieve(QUESTION)) == 4
    assert FastInsightRetriever.system == FastInsight()

    class Mine(GraphRetriever):
        system = PPR(damping=0.9)

    assert Mine(index).system == PPR(damping=0.9) and Mine(index, PPR()).system == PPR()
    with pytest.raises(InvalidArgumentError, match="Mine runs PPR"):
        Mine(index, BM25())


def test_a_system_may_be_a_function_of_the_index():
    retriever = GraphRetriever(linked_index(), lambda index: BM25Search(len(index)), similarity_top_k=2)
    assert retriever.system is None and len(retriever.retrieve("engine")) == 2
    assert GraphRetriever(linked_index(), similarity_top_k=2).system == WalkFusion()


@pytest.mark.slow
def test_saved_and_loaded_gives_the_same(system, tmp_path):
    nodes = llama_nodes()
    built = GraphRetriever.from_defaults(system=system, nodes=nodes, embed_model=HashEmbed(), similarity_top_k=6)
    built.index.save(tmp_path / "index")
    index = GraphIndex.load(tmp_path / "index")
    loaded = GraphRetriever(index, system, embed_model=HashEmbed(), similarity_top_k=6, nodes=nodes)
    bare = GraphRetriever(index, system, embed_model=HashEmbed(), similarity_top_k=6)
    expected = built.retrieve(QUESTION)
    assert loaded.retrieve(QUESTION) == expected
    assert [(n.node.node_id, n.score, n.text) for n in bare.retrieve(QUESTION)] == [
        (n.node.node_id, n.score, n.text) for n in expected
    ]


# -- query vectors ------------------------------------------------------------------------------------------------


def test_the_embedding_of_a_query_bundle_is_used():
    embed_model = HashEmbed()
    vector = HashEmbedding().embed_query("electronic computer with valves, built to break a cipher")
    retriever = GraphRetriever(linked_index(), Vector(), embed_model=embed_model, similarity_top_k=3)
    bundle = QueryBundle(QUESTION, embedding=vector)
    nodes = retriever.retrieve(bundle)
    assert ids(nodes)[0] == "colossus"
    assert ids(nodes) == [h.id for h in retriever.engine.retrieve(QUESTION, 3, vector=vector)]
    assert embed_model.queries == [] and bundle.embedding == vector


def test_a_computed_embedding_is_stored_back_and_asked_for_once():
    embed_model = HashEmbed()
    retriever = FastInsightRetriever(linked_index(), embed_model=embed_model)
    bundle = QueryBundle(QUESTION)
    first = retriever.retrieve(bundle)
    assert bundle.embedding == pytest.approx(HashEmbedding().embed_query(QUESTION))
    assert retriever.retrieve(bundle) == first
    assert embed_model.queries == [QUESTION]


def test_the_model_of_the_index_embeds_where_none_is_given(no_settings):
    embedding = HashEmbedding()
    bundle = QueryBundle(QUESTION)
    GraphRetriever(linked_index(embedding), Vector()).retrieve(bundle)
    assert embedding.query_calls == 1
    assert bundle.embedding == pytest.approx(HashEmbedding().embed_query(QUESTION))


def test_custom_embedding_strings_are_embedded_instead_by_their_mean():
    embed_model = HashEmbed()
    strings = ["punched cards", "weaving a cloth"]
    bundle = QueryBundle(QUESTION, custom_embedding_strs=strings)
    GraphRetriever(linked_index(), Vector(), embed_model=embed_model).retrieve(bundle)
    assert sorted(embed_model.queries) == strings
    assert bundle.embedding == pytest.approx(HashEmbed().get_agg_embedding_from_queries(strings))


def test_lexical_search_asks_for_no_vector_even_if_the_index_could_use_one(no_settings):
    retriever = GraphRetriever(linked_index(), BM25(), similarity_top_k=2)
    plain, of_another_model = QueryBundle("engine"), QueryBundle("engine", embedding=[1.0])
    assert ids(retriever.retrieve(of_another_model)) == ids(retriever.retrieve(plain))
    assert plain.embedding is None


def test_settings_are_asked_only_where_a_vector_is_needed_and_none_is_there(monkeypatch):
    embed_model = HashEmbed()
    monkeypatch.setattr(Settings, "_embed_model", embed_model)
    nodes = llama_nodes()
    retriever = GraphRetriever.from_defaults(system=Vector(), nodes=nodes)
    assert len(embed_model.texts) == len(nodes)
    retriever.retrieve(QUESTION)
    assert embed_model.queries == [QUESTION]


def test_no_embedding_model_anywhere_is_an_error_that_names_the_way_out(monkeypatch):
    def unresolved(self):
        raise ImportError("no embeddings package")

    monkeypatch.setattr(type(Settings), "embed_model", property(unresolved))
    with pytest.raises(MissingSignalError, match="embed_model="):
        GraphRetriever.from_defaults(system=Vector(), nodes=llama_nodes())
    nodes = llama_nodes()
    for node in nodes:
        node.embedding = HashEmbedding().embed_query(node.text)
    retriever = GraphRetriever.from_defaults(system=Vector(), nodes=nodes)
    assert len(retriever.retrieve(QueryBundle(QUESTION, embedding=nodes[0].embedding))) == 10
    with pytest.raises(MissingSignalError, match="embed_model="):
        retriever.retrieve(QUESTION)


@pytest.mark.process
def test_importing_touches_neither_settings_nor_the_other_framework():
    program = (
        "import sys, llama_graph_retrievers\n"
        "from llama_index.core import Settings\n"
        "assert Settings._embed_model is None and Settings._llm is None\n"
        "assert not {'langchain_graph_retrievers', 'langchain_core', 'transformers', 'bm25s', 'faiss'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# -- async and batches ----------------------------------------------------------------------------------------------


async def test_four_async_retrieves_run_at_the_same_time():
    """Each waits inside the engine until all four are there: a retriever that holds the event loop breaks the barrier."""
    barrier = threading.Barrier(4, timeout=20)

    class Meeting(VectorSearch):
        def search(self, question, found):
            barrier.wait()
            return (yield from super().search(question, found))

    retriever = GraphRetriever(Retriever(linked_index(), Meeting()), similarity_top_k=2)
    results = await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(4)))
    assert all(ids(nodes) == ids(results[0]) and len(nodes) == 2 for nodes in results)


async def test_async_gives_what_sync_gives(system):
    retriever = GraphRetriever(linked_index(), system)
    assert await retriever.aretrieve(QUESTION) == retriever.retrieve(QUESTION)
    assert await retriever.aretrieve_batch([QUESTION]) == [retriever.retrieve(QUESTION)]


def test_a_batch_gives_each_query_what_it_gets_alone(system):
    retriever = GraphRetriever(linked_index(), system, similarity_top_k=6)
    queries = [QUESTION, "Who broke ciphers?", "tabulating machines"]
    bundles = [queries[0], QueryBundle(queries[1]), QueryBundle(queries[2], embedding=HashEmbedding().embed_query("census"))]
    results = retriever.retrieve_batch(bundles)
    for bundle, nodes in zip(bundles, results, strict=True):
        alone = retriever.retrieve(bundle)
        assert ids(nodes) == ids(alone)
        assert [n.score for n in nodes] == pytest.approx([n.score for n in alone], abs=1e-5)


def test_a_batch_runs_in_lock_step():
    sizes = []

    class Counting(VectorSearch):
        def search(self, question, candidates):
            sizes.append(len(question.queries))
            return (yield from super().search(question, candidates))

    GraphRetriever(Retriever(linked_index(), Counting())).retrieve_batch(["engine", "loom", "cards"])
    assert sizes == [3, 3, 3]


def test_a_batch_of_one_string_is_refused():
    with pytest.raises(InvalidArgumentError, match="list of queries"):
        GraphRetriever(linked_index(), Vector()).retrieve_batch("engine")


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_nodes_come_back_as_copies_with_their_relationships():
    nodes = llama_nodes()
    for node in nodes:
        node.metadata["seen"] = [1]
    before = [node.model_copy(deep=True) for node in nodes]
    found = FastInsightRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed(), similarity_top_k=12).retrieve(QUESTION)
    originals = {node.node_id: node for node in nodes}
    for n in found:
        original = originals[n.node.node_id]
        assert n.node is not original and n.node.relationships == original.relationships
        assert n.node.text == original.text
        n.node.metadata["title"] = "changed"
        n.node.metadata["seen"].append(2)
        n.node.relationships.clear()
        n.node.set_content("changed")
    assert nodes == before


def test_provenance_is_shown_neither_to_embedding_nor_to_language_models():
    nodes = llama_nodes()
    found = FastInsightRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed()).retrieve(QUESTION)
    originals = {node.node_id: node for node in nodes}
    for n in found:
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert n.node.get_content(mode) == originals[n.node.node_id].get_content(mode)


def test_a_value_of_the_users_under_one_of_our_names_is_kept():
    node = TextNode(id_="a", text="An engine.", metadata={"path": "/docs/a.md", "operator": "Babbage"})
    node.excluded_llm_metadata_keys = ["operator"]
    found = GraphRetriever.from_defaults(system=BM25(), nodes=[node]).retrieve("engine")[0]
    assert provenance(found)["path"]["nodes"] == ["a"] and provenance(found)["operator"] == "BM25Search"
    assert found.node == node and found.node.get_content(MetadataMode.LLM) == "path: /docs/a.md\n\nAn engine."


def test_the_hash_of_a_node_is_its_own_whatever_the_query_and_the_retriever():
    nodes = llama_nodes()
    retriever = FastInsightRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed(), similarity_top_k=12)
    hashes = {node.node_id: node.hash for node in nodes}
    for question in (QUESTION, "Who broke ciphers?"):
        found = retriever.retrieve(question)
        assert {n.node.node_id: n.node.hash for n in found} == hashes
        assert {n.node.node_id: n.node for n in found} == {node.node_id: node for node in nodes}
    assert provenance(nodes[0]) == provenance(NodeWithScore(node=nodes[0])) == {}


def test_provenance_stays_with_copies_of_a_node():
    hit = GraphRetriever(linked_index(), BM25(), similarity_top_k=1).retrieve("engine")[0]
    said = provenance(hit)
    assert said["operator"] == "BM25Search"
    # As rerankers make results: a new score around the node.
    assert provenance(NodeWithScore(node=hit.node, score=0.5)) == said
    assert provenance(copy.deepcopy(hit)) == said and pickled(hit) == copy.deepcopy(hit) == hit
    assert "provenance" not in hit.to_dict()["node"]


def test_provenance_has_the_ranks_in_the_lists_of_a_fusion():
    system = ReciprocalRankFusion(BM25Search(2), Pipeline(BM25Search(1), STeX()))
    retriever = GraphRetriever(linked_index(), system, similarity_top_k=4)
    found = [provenance(n)["ranks"] for n in retriever.retrieve(QUESTION)]
    assert found[0] == {"BM25Search": 1, "STeX": 1} and {"BM25Search": None, "STeX": 3} in found
    assert "ranks" not in provenance(GraphRetriever(linked_index(), BM25()).retrieve(QUESTION)[0])


def test_without_provenance_nodes_come_back_as_they_were():
    nodes = llama_nodes()
    found = FastInsightRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed(), provenance=False).retrieve(QUESTION)
    originals = {node.node_id: node for node in nodes}
    assert all(n.node == originals[n.node.node_id] and n.node is not originals[n.node.node_id] for n in found)


def test_nodes_are_made_of_what_the_index_holds_where_no_nodes_are_given():
    node = GraphRetriever(linked_index(), Vector(), similarity_top_k=1).retrieve("mechanical calculator that tabulates")[0].node
    assert isinstance(node, TextNode) and node.node_id == "difference"
    assert node.text == "A mechanical calculator that tabulates polynomials."
    assert node.metadata["title"] == "Difference Engine" and node.metadata["year"] == 1822
    assert "path" not in node.get_content(MetadataMode.LLM)


def test_the_graph_is_made_of_the_nodes_relationships():
    retriever = FastInsightRetriever.from_defaults(
        system=FastInsight(nodes_per_round=1), nodes=llama_nodes(), embed_model=HashEmbed()
    )
    assert Edge("engine", "jacquard", "child") in retriever.index.graph.edges()
    walked = [provenance(n)["path"] for n in retriever.retrieve(QUESTION) if len(provenance(n)["path"]["nodes"]) > 1]
    assert walked and all("child" in path["relations"] for path in walked)


def test_edges_can_be_given_instead():
    retriever = FastInsightRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed(), edges=[("ada", "loom", "sees")])
    assert retriever.index.graph.edges() == [Edge("ada", "loom", "sees")]


def test_a_docstore_serves_as_source_and_is_asked_for_hits():
    docstore = SimpleDocumentStore()
    docstore.add_documents(llama_nodes())
    retriever = GraphRetriever.from_defaults(system=Vector(), docstore=docstore, embed_model=HashEmbed(), similarity_top_k=3)
    by_nodes = GraphRetriever.from_defaults(system=Vector(), nodes=llama_nodes(), embed_model=HashEmbed(), similarity_top_k=3)
    assert retriever.retrieve(QUESTION) == by_nodes.retrieve(QUESTION)
    best = retriever.retrieve(QUESTION)[0].node.node_id
    docstore.delete_document(best)
    assert best not in ids(retriever.retrieve(QUESTION))


@pytest.mark.parametrize("given", [{}, {"nodes": [TextNode(text="a")], "docstore": SimpleDocumentStore()}], ids=["none", "two"])
def test_from_defaults_takes_exactly_one_source(system, given):
    with pytest.raises(InvalidArgumentError, match="exactly one"):
        GraphRetriever.from_defaults(system=system, **given)


@pytest.mark.parametrize(("given", "name"), [([TextNode(text="a")], "nodes="), (SimpleDocumentStore(), "docstore=")])
def test_from_defaults_says_how_to_pass_what_is_no_index(system, given, name):
    for make in (FastInsightRetriever.from_defaults, partial(GraphRetriever.from_defaults, system=system)):
        with pytest.raises(InvalidArgumentError, match=f"Pass it as {name}"):
            make(given)


def test_an_index_goes_into_the_class_itself():
    with pytest.raises(InvalidArgumentError, match=r"Pass the GraphIndex to the class itself, as in GraphRetriever\(index\)"):
        GraphRetriever.from_defaults(linked_index(), system=Vector())
    with pytest.raises(InvalidArgumentError, match=r"Pass the RemoteIndex to the class itself, as in GraphRetriever\(index\)"):
        GraphRetriever.from_defaults(engines(random_corpus(5, 30, 70))[3], system=Vector())


def test_a_relevance_model_can_go_with_an_index():
    asked = []
    index = linked_index()
    graded = index.with_models(relevance=lambda pairs: [asked.append(p) or float(len(p[1])) for p in pairs])
    retriever = GraphRetriever(graded, Re2())
    lengths = sorted((float(len(text)) for text in index.graph.contents()), reverse=True)
    assert [n.score for n in retriever.retrieve(QUESTION)] == lengths[:10] and len(asked) == 12
    assert index.relevance.name == "bi-encoder"


def test_nodes_that_bring_vectors_are_not_embedded_again():
    embed_model, nodes = HashEmbed(), llama_nodes()
    for node in nodes[:8]:
        node.embedding = HashEmbedding().embed_query("something else")
    index = GraphRetriever.from_defaults(system=Vector(), nodes=nodes, embed_model=embed_model).index
    assert embed_model.texts == [node.get_content(MetadataMode.EMBED) for node in nodes[8:]]
    assert index.dense.vectors[0].tolist() == pytest.approx(nodes[0].embedding)


def test_lexical_search_over_nodes_needs_no_embedding_model(no_settings):
    retriever = GraphRetriever.from_defaults(system=BM25(), nodes=llama_nodes(), similarity_top_k=1)
    assert not retriever.index.has_dense
    assert ids(retriever.retrieve("loom driven by cards")) == ["jacquard"]


def test_documents_are_taken_as_nodes():
    documents = [Document(id_="a", text="A loom."), Document(id_="b", text="A punched card.")]
    found = GraphRetriever.from_defaults(system=BM25(), nodes=documents, similarity_top_k=1).retrieve("card")[0].node
    assert isinstance(found, Document) and found.node_id == "b"


def test_nodes_of_another_library_are_refused():
    with pytest.raises(InvalidArgumentError, match="LlamaIndex nodes"):
        GraphRetriever(linked_index(), Vector(), nodes=[Node("a", "text")])


# -- objects ----------------------------------------------------------------------------------------------------------


def test_the_object_of_an_index_node_is_followed():
    whole = TextNode(id_="whole", text="The whole article on looms.")
    nodes = [IndexNode(id_="summary", text="loom", index_id="looms", obj=whole), TextNode(id_="other", text="engine")]
    found = GraphRetriever.from_defaults(system=BM25(), nodes=nodes, similarity_top_k=2).retrieve("loom")
    assert ids(found)[0] == "whole" and found[0].node.text == whole.text


async def test_a_retriever_behind_an_index_node_is_asked(no_settings):
    inner = GraphRetriever(linked_index(), BM25(), similarity_top_k=2)
    nodes = [IndexNode(id_="pointer", text="history of computing", index_id="inner"), TextNode(id_="x", text="cooking")]
    outer = GraphRetriever.from_defaults(system=BM25(), nodes=nodes, object_map={"inner": inner}, similarity_top_k=1)
    question = "history of the Colossus computer"
    assert ids(outer.retrieve(question)) == ids(inner.retrieve(question)) == ids(await outer.aretrieve(question))
    assert [ids(nodes) for nodes in outer.retrieve_batch([question])] == [ids(inner.retrieve(question))]


def test_objects_are_followed_on_an_index_that_knows_only_their_ids():
    index = GraphIndex.from_texts(["loom", "engine"], ids=["summary", "other"])
    whole = TextNode(id_="whole", text="The whole article on looms.")
    objects = [IndexNode(id_="summary", text="loom", index_id="looms", obj=whole)]
    assert ids(GraphRetriever(index, BM25(), objects=objects, similarity_top_k=1).retrieve("loom")) == ["whole"]


class Echo(BaseQueryEngine):
    def __init__(self):
        super().__init__(None)

    def _get_prompt_modules(self):
        return {}

    def _query(self, query_bundle):
        return Response(f"asked: {query_bundle.query_str}")

    async def _aquery(self, query_bundle):
        return self._query(query_bundle)


def pointers():
    """Index nodes to a node, a retriever and a query engine."""
    inner = GraphRetriever.from_defaults(system=BM25(), nodes=[TextNode(id_="deep", text="A deep page about valves.")])
    return [
        IndexNode(id_="n", text="Looms.", index_id="looms", obj=TextNode(id_="whole", text="The whole article.")),
        IndexNode(id_="r", text="Valves.", index_id="valves", obj=inner),
        IndexNode(id_="e", text="Engines.", index_id="engines", obj=Echo()),
    ]


def behind(kind):
    """A retriever of the nodes above and another one, made in one of the ways in which LlamaIndex takes objects."""
    others = [TextNode(id_="other", text="Cards.")]
    if kind == "nodes":
        return GraphRetriever.from_defaults(system=BM25(), nodes=[*others, *pointers()], similarity_top_k=1)
    if kind == "objects":
        return GraphRetriever.from_defaults(system=BM25(), nodes=others, objects=pointers(), similarity_top_k=1)
    if kind == "objects alone":
        # Read only once.
        return GraphRetriever.from_defaults(system=BM25(), objects=iter(pointers()), similarity_top_k=1)
    if kind == "objects beside a docstore":
        store = SimpleDocumentStore()
        store.add_documents(others)
        return GraphRetriever.from_defaults(system=BM25(), docstore=store, objects=pointers(), similarity_top_k=1)
    theirs = VectorStoreIndex(others, embed_model=HashEmbed(), objects=pointers() if kind == "of a VectorStoreIndex" else None)
    if kind == "beside a VectorStoreIndex":
        return GraphRetriever.from_defaults(theirs, system=BM25(), objects=pointers(), similarity_top_k=1)
    retriever = GraphRetriever.from_defaults(theirs, system=BM25(), similarity_top_k=1)
    if kind == "inserted later":
        theirs.insert_nodes(pointers())
    return retriever


@pytest.mark.parametrize(
    "kind",
    [
        *("nodes", "objects", "objects alone", "objects beside a docstore"),
        *("of a VectorStoreIndex", "beside a VectorStoreIndex", "inserted later"),
    ],
)
async def test_objects_are_indexed_and_followed(kind):
    retriever = behind(kind)
    answers = {"looms": "The whole article.", "valves": "A deep page about valves.", "engines": "asked: engines"}
    for question, text in answers.items():
        for found in (
            retriever.retrieve(question),
            await retriever.aretrieve(question),
            retriever.retrieve_batch([question])[0],
            (await retriever.aretrieve_batch([question]))[0],
        ):
            assert [n.node.get_content() for n in found] == [text]
    # As in LlamaIndex: a node and a response have the score of the hit, the nodes of a retriever their own.
    plain = GraphRetriever(retriever.index, BM25(), similarity_top_k=1)
    for question in ("looms", "engines"):
        assert retriever.retrieve(question)[0].score == plain.retrieve(question)[0].score
    assert retriever.retrieve("valves")[0].score == pointers()[1].obj.retrieve("valves")[0].score


def test_texts_of_objects_are_embedded_and_the_objects_are_left_as_they_are(no_settings):
    embed_model, objects = HashEmbed(), pointers()
    retriever = GraphRetriever.from_defaults(system=Vector(), objects=objects, embed_model=embed_model, similarity_top_k=1)
    assert embed_model.texts == ["Looms.", "Valves.", "Engines."] and all(node.obj is not None for node in objects)
    assert retriever.retrieve("Looms.")[0].node.node_id == "whole"


def test_objects_of_a_saved_index_are_given_again(tmp_path, caplog):
    behind("objects").index.save(tmp_path / "index")
    index = GraphIndex.load(tmp_path / "index")
    (bare,) = GraphRetriever(index, BM25(), similarity_top_k=1).retrieve("looms")
    assert isinstance(bare.node, IndexNode) and bare.node.index_id == "looms" and bare.node.obj is None
    again = [node.model_copy(update={"id_": f"new {node.node_id}"}) for node in pointers()]
    assert ids(GraphRetriever(index, BM25(), objects=again, similarity_top_k=1).retrieve("looms")) == ["whole"]
    assert caplog.text == ""
    absent = [IndexNode(id_="x", text="Pumps.", index_id="pumps", obj=TextNode(text="On pumps."))]
    GraphRetriever(index, BM25(), objects=absent)
    (record,) = caplog.records
    assert "1 of the objects ('pumps') are not nodes of the index" in record.getMessage()
    with pytest.raises(InvalidArgumentError, match=r"objects\[0\] is a TextNode; expected an IndexNode"):
        GraphRetriever(index, BM25(), objects=[TextNode(text="a loom")])
    for name, node in (("objects", absent[0]), ("nodes", TextNode(text="a loom"))):
        with pytest.raises(InvalidArgumentError, match=rf"{name} is a single {type(node).__name__}; .*{name}=\[node\]"):
            GraphRetriever.from_defaults(system=BM25(), **{name: node})


# -- what LlamaIndex watches ------------------------------------------------------------------------------------------


def test_callbacks_and_instrumentation_see_the_retrieval():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    retriever = GraphRetriever(linked_index(), Vector(), callback_manager=CallbackManager([handler]), similarity_top_k=2)
    with instrumentation_events() as events:
        nodes = retriever.retrieve(QUESTION)
    start, end = handler.get_event_pairs(CBEventType.RETRIEVE)[0]
    assert start.payload["query_str"] == QUESTION and end.payload["nodes"] == nodes
    assert [e.class_name() for e in events] == ["RetrievalStartEvent", "GraphSearchEvent", "RetrievalEndEvent"]
    assert events[2].nodes == nodes


def test_instrumentation_sees_each_query_of_a_batch():
    with instrumentation_events() as events:
        results = GraphRetriever(linked_index(), Vector()).retrieve_batch(["engine", "loom"])
    ends = [e for e in events if e.class_name() == "RetrievalEndEvent"]
    assert [e.nodes for e in ends] == results
    assert [e.str_or_query_bundle.query_str for e in ends] == ["engine", "loom"]


# -- keywords ---------------------------------------------------------------------------------------------------------


def test_type_checkers_know_the_keywords_that_are_passed_on():
    assert DefaultsOptions.__optional_keys__ == keywords_of(GraphRetriever.__init__) - {"embed_model", "nodes"} | (
        keywords_of(Retriever.__init__) - {"k"}
    )


def test_every_system_is_reachable_by_its_name():
    index = linked_index()
    for name in every_system():
        assert GraphRetriever(index, name).system == read_system(name)


# -- copies and the repr ----------------------------------------------------------------------------------------------


def asked(question):
    return ["Charles Babbage"]


def test_copies_and_pickles_give_the_same(system):
    docstore = SimpleDocumentStore()
    docstore.add_documents(llama_nodes())
    retriever = GraphRetriever.from_defaults(
        system=system, docstore=docstore, embed_model=HashEmbed(), similarity_top_k=4, filters={"year": {"$lt": 1940}}
    )
    expected = retriever.retrieve(QUESTION)
    for copied in (copy.copy(retriever), copy.deepcopy(retriever), pickled(retriever), pickled(pickled(retriever))):
        assert copied.retrieve(QUESTION) == expected and repr(copied) == repr(retriever)
        assert [n.score for n in copied.retrieve(QUESTION)] == [n.score for n in expected]


def test_copies_of_retrievers_with_inputs_nodes_and_a_language_model():
    retriever = SpreadingActivationRetriever(
        linked_index(),
        SpreadingActivation(language_model=MockLLM()),
        inputs={"entities": asked},
        nodes=llama_nodes(),
        embed_model=HashEmbed(),
    )
    expected = retriever.retrieve(QUESTION)
    assert pickled(retriever).retrieve(QUESTION) == copy.deepcopy(retriever).retrieve(QUESTION) == expected


def test_the_repr_says_what_is_searched():
    made = GraphRetriever(linked_index(), Vector(), similarity_top_k=3)
    assert repr(made) == "GraphRetriever(Vector, 12 nodes, 10 edges, similarity_top_k=3)"
    assert repr(WalkFusionRetriever(linked_index())) == "WalkFusionRetriever(12 nodes, 10 edges, similarity_top_k=10)"
    own = GraphRetriever(Retriever(linked_index(), VectorSearch(), name="Mine"))
    assert repr(own) == "GraphRetriever(Mine, 12 nodes, 10 edges, similarity_top_k=10)"


# -- compositions -----------------------------------------------------------------------------------------------------


def test_a_composition_of_ones_own():
    composition = Pipeline(VectorSearch(6), GRanker(0.5))
    retriever = GraphRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed(), system=composition, similarity_top_k=4)
    assert retriever.engine.operator is composition
    assert len(retriever.retrieve(QUESTION)) == 4


def test_a_system_by_its_short_name():
    named = GraphRetriever(linked_index(), "bm25", similarity_top_k=3)
    assert named.retrieve("engine") == GraphRetriever(linked_index(), BM25(), similarity_top_k=3).retrieve("engine")
    few = GraphRetriever(linked_index(), "re2(depth=2)", backfill=False)
    assert len(few.retrieve("engine")) == 2


def test_parameters_reach_the_engine():
    index = linked_index()
    parameters = {"budget": 4, "nodes_per_round": 2, "alpha": 0.0, "beta": 0.5, "first": BM25Search(2), "degree": "subgraph"}
    assert len(FastInsightRetriever(index, FastInsight(**parameters), backfill=False).retrieve("engine")) == 4
    assert len(GraphRetriever(index, Re2(depth=3), backfill=False).retrieve(QUESTION)) == 3
    assert len(FastInsightRetriever(index, FastInsight(budget=4, nodes_per_round=2)).retrieve(QUESTION)) == 10
    weighted = GraphRetriever(index, Hybrid(fusion="weighted", weights=(0.0, 1.0)), similarity_top_k=1)
    assert ids(weighted.retrieve("valves")) == ids(GraphRetriever(index, BM25(), similarity_top_k=1).retrieve("valves"))


def test_keywords_of_every_engine_retriever_are_taken():
    index = linked_index()
    made = GraphRetriever(index, Vector(), name="mine", batch_size=3, types=[""], backfill=False)
    assert (made.engine.name, made.engine.batch_size, made.engine.types, made.engine.backfill) == ("mine", 3, ("",), False)
    assert GraphRetriever(index, Vector(), types=["person"], backfill=False).retrieve("engine") == []


def test_a_class_of_ones_own_derived_from_a_preset():
    class Two(WalkFusionRetriever):
        """Two hits."""

        def __init__(self, index):
            super().__init__(index, similarity_top_k=2)

    assert len(Two(linked_index()).retrieve("engine")) == 2


def test_backfill_is_marked():
    nodes = GraphRetriever(linked_index(), BM25(), similarity_top_k=5).retrieve("Lyon")
    assert [provenance(n)["operator"] for n in nodes] == ["BM25Search"] + ["Backfill"] * 4


def test_nodes_that_nothing_links_are_told_of_once_where_the_retriever_walks(caplog):
    nodes = [TextNode(id_="loom", text="A loom."), TextNode(id_="card", text="A card.")]
    for system in ("bm25", "vector", "hybrid"):
        found = GraphRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed(), system=system).retrieve("Which loom?")
        assert not any("notes" in provenance(hit) for hit in found)
    assert "no edges" not in caplog.text
    found = WalkFusionRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed()).retrieve("Which loom?")
    assert caplog.text.count("There are no edges, so that walks along edges find little more than search does") == 1
    assert all(provenance(hit)["notes"][0].startswith("there are no edges, so that") for hit in found) and found
    caplog.clear()
    # Relationships that lead out of the nodes are not edges either.
    nodes[0].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="elsewhere")
    WalkFusionRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed())
    assert caplog.text.count("There are no edges") == 1


def test_the_similarity_is_told_beside_the_score():
    retriever = WalkFusionRetriever(linked_index(), similarity_top_k=3)
    questions = ["Which machine reads punched cards?", "Who broke a cipher?"]
    expected = [[hit.similarity for hit in hits] for hits in retriever.engine.retrieve_batch(questions, 3)]
    found = retriever.retrieve_batch(questions)
    assert [[provenance(result)["similarity"] for result in results] for results in found] == expected
    assert found[0][0].score > 1 >= provenance(found[0][0])["similarity"]
    assert all("similarity" not in provenance(hit) for hit in GraphRetriever(linked_index(), BM25()).retrieve(questions[0]))


def test_nodes_below_a_similarity_are_dropped():
    retriever = WalkFusionRetriever(linked_index(), similarity_top_k=5)
    found = retriever.retrieve("Which machine reads punched cards?")
    values = sorted(provenance(result)["similarity"] for result in found)
    for cutoff, count in ((values[2], 3), (values[2] + 1e-6, 2), (-1.0, 5), (1.0, 0)):
        kept = SimilarityCutoffPostprocessor(similarity_cutoff=cutoff).postprocess_nodes(found)
        assert [hit.node.node_id for hit in kept] == [
            hit.node.node_id for hit in found if provenance(hit)["similarity"] >= cutoff
        ] and len(kept) == count
    # In a query engine, where nothing relevant leaves nothing.
    far = SimilarityCutoffPostprocessor(similarity_cutoff=0.99)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[far])
    assert engine.query("Which machine reads punched cards?").source_nodes == []
    given = SimilarityCutoffPostprocessor(similarity_cutoff=0.5)
    assert copy.deepcopy(given).similarity_cutoff == 0.5 == given.to_dict()["similarity_cutoff"]


def test_a_cutoff_of_nodes_that_tell_no_similarity_is_refused():
    nodes = GraphRetriever(linked_index(), BM25()).retrieve("Which machine reads punched cards?")
    with pytest.raises(InvalidArgumentError, match="None of the 6 nodes tells its similarity; expected"):
        SimilarityCutoffPostprocessor(similarity_cutoff=0.1).postprocess_nodes(nodes[:6])
    assert SimilarityCutoffPostprocessor(similarity_cutoff=0.1).postprocess_nodes([]) == []
    # One without a vector cannot be said to be near.
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 0.0]], edges=[])
    found = GraphRetriever(index, Vector(), embed_model=lambda texts: [[1.0, 0.0]] * len(texts)).retrieve("a loom")
    assert [hit.node.node_id for hit in SimilarityCutoffPostprocessor(similarity_cutoff=-1.0).postprocess_nodes(found)] == ["0"]
    for wrong in (1.5, -2, float("nan")):
        with pytest.raises(ValueError, match="similarity_cutoff"):
            SimilarityCutoffPostprocessor(similarity_cutoff=wrong)
