"""Compositions of public operators alone: what they find arrives in the engine, in LangChain and in LlamaIndex."""

from collections import deque
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from graph_retrievers import Edge, GraphIndex, Hits, Operator, Pipeline, ReciprocalRankFusion, Retriever
from graph_retrievers.core.candidates import Candidates, concatenated
from graph_retrievers.core.chains import Facts
from graph_retrievers.operators import (
    Backfill,
    ChainSearch,
    EntityLinking,
    FactSearch,
    GatedPropagation,
    GRanker,
    MixedTraversal,
    OperatorKind,
    Rerank,
    TrajectoryReranker,
    VectorSearch,
)
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from langchain_graph_retrievers import to_context as langchain_context
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from llama_graph_retrievers import provenance
from llama_graph_retrievers import to_context as llama_context
from tests.helpers import HashEmbedding
from tests.movies import movie_edges, movie_nodes

WIDTH = 64
QUESTIONS = [
    "How are Cleo Marsh and Glass Winter linked?",
    "Which genre has what Bruno Vale wrote?",
    "What do Fay North and Red Harbour share?",
    "the of and",
]
ENTITIES = [["Cleo Marsh", "Glass Winter"], ["Bruno Vale"], None, ["Nobody Known"]]


def plan(person, relation):
    """From a person over the films joined by a relation to their genres."""
    steps = [{"type": "movie", "relation": relation}, {"type": "genre"}]
    return {"paths": [[{"type": "person", "restriction": person}, *steps]]}


PLANS = [plan("Cleo Marsh", "starred_actors"), plan("Bruno Vale", "written_by"), None, {"paths": [[{"type": "ship"}]]}]
INPUTS = {"entities": ENTITIES, "plan": PLANS}


@cache
def index(device="cpu"):
    # m1 and p1 are joined by "directed_by" first and by "written_by" after.
    edges = [Edge(*edge, text=f"{edge[0]} was {edge[2]} {edge[1]}." if edge[2] == "written_by" else "") for edge in movie_edges()]
    return GraphIndex.from_nodes(movie_nodes(), edges, embedding=HashEmbedding(WIDTH), edge_signals=True, device=device)


def weights():
    """The weights of a trajectory reranker that reads two nodes."""
    shapes = {"score_vec_enc": (8, 3), "text_emb_enc": (8, WIDTH), "symb_enc": (3, 8), "fc1": (1, 32), "fc2": (1, 1)}
    generator = torch.Generator().manual_seed(4)
    drawn = {f"{name}.weight": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return drawn | {f"{name}.bias": torch.zeros(shape[0]) for name, shape in shapes.items() if name != "symb_enc"}


class ShortestPaths(Operator):
    """What joins the nodes found before: the first of them to each other one by a shortest path, its edges as facts."""

    kind = OperatorKind.GRAPH_SEARCH

    def search(self, question, candidates):
        yield from ()
        graph, allowed = question.queries.index.graph, question.queries.walk_allowed
        seeds = candidates.nodes.tolist()
        paths = [path for seed in seeds[1:] if (path := self.path(graph, seeds[0], seed, allowed))]
        trails = {path[n]: path[: n + 1] for path in paths for n in range(1, len(path))}.values()
        steps = [step for path in paths for step in zip(path, path[1:], strict=False)]
        near, far = torch.tensor(steps, dtype=torch.int64, device=graph.device).reshape(-1, 2).unbind(1)
        rows = np.array(list(dict.fromkeys(graph.steps_between(near, far)[0].tolist())), np.int64)
        table = np.array([[-1] * (9 - len(trail)) + trail for trail in trails], np.int64).reshape(-1, 9)
        made = Candidates(table[:, -1], np.zeros(len(table)), table, np.zeros(len(table), np.int64), (self.name,))
        joined = concatenated([candidates, made])
        _, first = np.unique(joined.nodes, return_index=True)
        return replace(joined.taken(np.sort(first)).top(100), facts=Facts(rows, -np.arange(float(len(rows))), self.name))

    @staticmethod
    def path(graph, start, end, allowed):
        """Return the first shortest path, of at most nine nodes; an empty one where there is none."""
        parents, waiting = {start: None}, deque([start])
        while waiting and end not in parents:
            node = waiting.popleft()
            for other in graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist():
                if other not in parents and (other == end or allowed is None or allowed[other]):
                    parents[other] = node
                    waiting.append(other)
        path = [end] if end in parents else []
        while path and parents[path[0]] is not None:
            path.insert(0, parents[path[0]])
        return path if len(path) <= 9 else []


def spreading():
    return Pipeline(EntityLinking(), GatedPropagation(gate="uniform"), ChainSearch())


def mor():
    return Pipeline(MixedTraversal(fill=False), TrajectoryReranker(weights()))


COMPOSITIONS = {
    "spreading activation": spreading,
    "chains as paths": lambda: Pipeline(EntityLinking(), GatedPropagation(gate="uniform"), ChainSearch(as_trails=True)),
    "mor": mor,
    "fusion": lambda: ReciprocalRankFusion(spreading(), mor()),
    "reranked fusion": lambda: Pipeline(ReciprocalRankFusion(spreading(), mor(), weights=(1, 2)), Rerank()),
    "subgraph": lambda: Pipeline(VectorSearch(3), ShortestPaths(), Rerank()),
    "fused subgraph": lambda: Pipeline(
        ReciprocalRankFusion(Pipeline(VectorSearch(3), ShortestPaths()), Pipeline(FactSearch(2), ShortestPaths()), spreading()),
        GRanker(),
        Backfill(),
    ),
    "facts and chains": lambda: Pipeline(FactSearch(3), GatedPropagation(gate="uniform"), ChainSearch(5)),
}


def made(name, device="cpu", **options):
    return Retriever(index(device), COMPOSITIONS[name](), **{"k": 6, "backfill": False, **options})


def given(retriever, rows=range(4)):
    return {name: [INPUTS[name][row] for row in rows] for name in retriever.inputs}


def paths(hits):
    return [str(hit.path) for hit in hits]


# -- each composition -------------------------------------------------------------------------------------------------


def test_spreading_activation_brings_nodes_with_paths_and_chains(device):
    retriever = made("spreading activation", device)
    assert retriever.inputs == ("entities",)
    hits = retriever.retrieve(QUESTIONS[0], entities=["Cleo Marsh", "Drama"])
    assert [hit.kind for hit in hits] == ["node"] * 6 + ["chain"] * len(hits.chains)
    assert {path.split()[0] for path in paths(hits.nodes)} == {"p2", "g0"} == {path.split()[0] for path in paths(hits.chains)}
    assert {hit.operator for hit in hits} == {"EntityLinking", "GatedPropagation", "ChainSearch"}
    assert len(hits.chains) > 3 and all(2 <= len(hit.path.nodes) <= 5 for hit in hits.chains)
    means = [hit.score for hit in hits.chains]
    assert means == sorted(means, reverse=True)
    named = retriever.retrieve("How are Cleo Marsh and Drama linked?")
    assert [hit.id for hit in named] == [hit.id for hit in hits], "the question names the same nodes"
    (note,) = retriever.retrieve("the of and", entities=["the of and"]).notes
    assert "no node is named 'the of and'" in note


@pytest.mark.parametrize("relation", ["written_by", "directed_by"])
def test_mor_shows_the_relations_that_the_plan_walked(relation, device):
    retriever = made("mor", device)
    assert retriever.inputs == ("plan",)
    hits = retriever.retrieve("Which genre?", plan=plan("Bruno Vale", relation))
    assert paths(hits) == [f"p1 <-[{relation}]- m1 -[has_genre]-> g1"]
    assert hits[0].path.text == f"Bruno Vale <-[{relation}]- The Long Field -[has_genre]-> Comedy"
    assert hits.notes == () and hits[0].operator == "MixedTraversal"
    edges = hits.subgraph().edges
    assert [(edge.source, edge.target, edge.relation) for edge in edges] == [("m1", "p1", relation), ("m1", "g1", "has_genre")]
    assert all(edge in retriever.index.graph.edges() for edge in edges), "with weight, text and metadata"


def test_the_reranker_orders_what_the_traversal_found(device):
    asked = plan("Cleo Marsh", None)
    walked = Retriever(index(device), MixedTraversal(fill=False), k=6, backfill=False).retrieve("Which genre?", plan=asked)
    hits = made("mor", device).retrieve("Which genre?", plan=asked)
    assert sorted(paths(hits)) == sorted(paths(walked)) and len(hits) > 1
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert [hit.score for hit in hits] != [hit.score for hit in walked]


def test_a_fusion_takes_the_inputs_of_both_and_keeps_what_both_found(device):
    retriever = made("fusion", device, k=15)
    assert retriever.inputs == ("entities", "plan")
    entities, walked = ["Glass Winter"], plan("Bruno Vale", "written_by")
    hits = retriever.retrieve("Which?", entities=entities, plan=walked)
    first = made("spreading activation", device, k=15).retrieve("Which?", entities=entities)
    second = made("mor", device, k=15).retrieve("Which?", plan=walked)
    fused = {}
    for found in (first.nodes, second.nodes):
        for rank, hit in enumerate(found, 1):
            fused[hit.id] = fused.get(hit.id, 0) + 1 / (60 + rank)
    assert {hit.id: hit.score for hit in hits.nodes} == pytest.approx(fused)
    assert hits.chains == first.chains and len(hits.chains) > 1
    # The list that brings most to a node tells its path: the plan's g1 is its first.
    assert paths(hit for hit in hits.nodes if hit.id == "g1") == paths(second)
    others = {hit.id: hit for hit in first.nodes}
    assert all(hit.path == others[hit.id].path for hit in hits.nodes if hit.id != "g1")
    # Both say what went wrong.
    notes = retriever.retrieve("the of and", entities=["the of and"], plan=PLANS[3]).notes
    assert len(notes) == 2 and "no node is named" in notes[0] and "single node ship" in notes[1]


def test_what_was_found_beyond_nodes_survives_a_reranker(device):
    plain, reranked = (
        made(name, device, k=15).retrieve(QUESTIONS[1], entities=ENTITIES[1], plan=PLANS[1])
        for name in ("fusion", "reranked fusion")
    )
    fallback = "no relevance model: reranked by the similarity of the vectors"
    assert list(reranked.chains) == list(plain.chains) and reranked.notes == (*plain.notes, fallback)
    assert sorted(hit.id for hit in reranked.nodes) == sorted(hit.id for hit in plain.nodes)
    vector = {hit.id: hit.score for hit in Retriever(index(device), VectorSearch(), k=15).retrieve(QUESTIONS[1])}
    assert [hit.score for hit in reranked.nodes] == pytest.approx([vector[hit.id] for hit in reranked.nodes], abs=1e-6)


def test_a_reranked_subgraph_of_facts(device):
    question = QUESTIONS[0]
    retriever = made("subgraph", device, k=15)
    assert retriever.inputs == ()
    hits = retriever.retrieve(question)
    seeds = [hit.id for hit in Retriever(index(device), VectorSearch(3), backfill=False).retrieve(question)]
    graph = index(device).graph
    edges = {(edge.source, edge.target, edge.relation) for edge in graph.edges()}
    assert [hit.kind for hit in hits] == ["node"] * len(hits.nodes) + ["fact"] * len(hits.facts)
    assert set(seeds) < {hit.id for hit in hits.nodes} and len(hits.facts) >= 3
    assert [hit.score for hit in hits.nodes] == sorted((hit.score for hit in hits.nodes), reverse=True)
    for hit in hits.facts:
        assert hit.operator == "ShortestPaths"
        assert (hit.edge.source, hit.edge.target, hit.edge.relation) in edges
        assert hit.path.nodes == (hit.edge.source, hit.edge.target) and hit.text == (hit.edge.text or hit.path.text)
    # Every step of a path is a fact, and the facts join the seeds: their ends are the nodes.
    joined = {frozenset(hit.path.nodes) for hit in hits.facts}
    steps = [frozenset(pair) for hit in hits.nodes for pair in zip(hit.path.nodes, hit.path.nodes[1:], strict=False)]
    assert steps and set(steps) <= joined
    assert {node for hit in hits.facts for node in hit.path.nodes} == {hit.id for hit in hits.nodes}
    subgraph = hits.subgraph()
    assert subgraph.edges == tuple(hit.edge for hit in hits.facts)
    assert [node.id for node in subgraph.nodes] == [hit.id for hit in hits.nodes]
    # What language models read: facts, and paths of the nodes.
    assert [part.split("\n")[0] for part in hits.to_context().split("\n\n")] == ["Paths:", "Facts:", "Texts:"]


def test_chains_and_facts_stand_side_by_side(device):
    hits = made("facts and chains", device).retrieve("m1 was written_by p1")
    assert [len(part) for part in (hits.nodes, hits.facts)] == [6, 3] and 0 < len(hits.chains) <= 5
    assert hits.facts[0].text == "m1 was written_by p1." and hits.facts[0].edge.text == hits.facts[0].text
    assert {hit.operator for hit in hits.facts} == {"FactSearch"} and {hit.operator for hit in hits.chains} == {"ChainSearch"}
    subgraph = hits.subgraph()
    assert len(set(subgraph.edges)) == len(subgraph.edges)
    assert {hit.edge for hit in hits.facts} <= set(subgraph.edges)
    texts = [part.split("\n") for part in hits.to_context().split("\n\n")]
    assert [(part[0], len(part) - 1) for part in texts] == [("Paths:", len(hits.chains)), ("Facts:", 3), ("Texts:", 6)]


# -- all of them ------------------------------------------------------------------------------------------------------


def plain(hits):
    """All of the hits but scores, which may differ by rounding; and the scores."""
    rows = [(hit.id, hit.kind, hit.operator, str(hit.path), hit.text) for hit in hits]
    return (rows, hits.notes), [hit.score for hit in hits]


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_batch_gives_each_query_what_it_gets_alone(name, device):
    retriever = made(name, device, batch_size=3)
    together = retriever.retrieve_batch(QUESTIONS, **given(retriever))
    assert len(together) == 4 and all(isinstance(hits, Hits) for hits in together)
    for row, (question, hits) in enumerate(zip(QUESTIONS, together, strict=True)):
        alone = retriever.retrieve(question, **{key: values[0] for key, values in given(retriever, [row]).items()})
        (found, scores), (single, single_scores) = plain(hits), plain(alone)
        assert found == single
        assert scores == pytest.approx(single_scores, abs=1e-5)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_two_runs_give_the_same(name, device):
    runs = [
        [[hit.to_dict() for hit in hits] for hits in retriever.retrieve_batch(QUESTIONS, **given(retriever))]
        for retriever in (made(name, device), made(name, device))
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_filters_hold_for_all_kinds_of_hits(name, device):
    retriever = made(name, device, k=15)
    inputs = given(retriever)
    whole = retriever.retrieve_batch(QUESTIONS, **inputs)
    allowed = {node for node in index().graph.ids if node not in ("m1", "p2", "g0")}
    for hits in retriever.retrieve_batch(QUESTIONS, filter=lambda node: node.id in allowed, **inputs):
        assert {hit.id for hit in hits.nodes} <= allowed
        assert all(hit.path.nodes[-1] in allowed for hit in hits.chains)
        assert all(set(hit.path.nodes) <= allowed for hit in hits.facts)
        titles = {node: title for hit in hits for node, title in zip(hit.path.nodes, hit.path.titles, strict=True)}
        assert all(bool(title) == (node in allowed) for node, title in titles.items())
    begins = {node for node in index().graph.ids if node[0] == "p"}
    seeded = retriever.retrieve_batch(QUESTIONS, seed_filter=lambda node: node.id in begins, **inputs)
    walked = {node for node in index().graph.ids if node not in ("m0", "m1", "m2")}
    kept = retriever.retrieve_batch(QUESTIONS, traversal_filter=lambda node: node.id in walked, **inputs)
    for hits in seeded:
        assert {hit.path.nodes[0] for hit in hits if hit.kind != "fact" and hit.operator != "Backfill"} <= begins
    for hits in kept:
        assert all(set(hit.path.nodes[1:]) <= walked for hit in hits if hit.kind == "node" and hit.operator != "ShortestPaths")
        assert all(set(hit.path.nodes[1:-1]) <= walked for hit in hits if hit.operator in ("ShortestPaths", "ChainSearch"))
    assert whole not in (seeded, kept)
    assert retriever.retrieve_batch(QUESTIONS, filter={"$id": "nobody"}, **inputs) == [
        Hits(notes=hits.notes) for hits in retriever.retrieve_batch(QUESTIONS, filter={"$id": "nobody"}, **inputs)
    ]


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_backfill_stands_behind_the_nodes_and_before_the_rest(name, device):
    retriever = made(name, device, k=15, backfill=True)
    for hits, own in zip(
        retriever.retrieve_batch(QUESTIONS, **given(retriever)),
        made(name, device, k=15).retrieve_batch(QUESTIONS, **given(retriever)),
        strict=True,
    ):
        assert len(hits.nodes) == 15 and len({hit.id for hit in hits.nodes}) == 15
        assert [hit.id for hit in hits.nodes[: len(own.nodes)]] == [hit.id for hit in own.nodes]
        assert {hit.operator for hit in hits.nodes[len(own.nodes) :]} <= {"Backfill"}
        assert hits.chains == own.chains and hits.facts == own.facts and hits.notes == own.notes
        assert [hit.kind for hit in hits] == [hit.kind for part in (hits.nodes, hits.chains, hits.facts) for hit in part]


# -- in the frameworks ------------------------------------------------------------------------------------------------


def told(kind, path, notes):
    """What both frameworks add to the metadata of a hit, besides operator, score, title and type."""
    return ({} if kind == "node" else {"kind": kind}) | {"path": path} | ({"notes": list(notes)} if notes else {})


def expected(results):
    return [
        [
            (hit.id, hit.text, hit.operator, pytest.approx(hit.score, abs=1e-5), told(hit.kind, hit.path.to_dict(), hits.notes))
            for hit in hits
        ]
        for hits in results
    ]


def of_documents(documents):
    names = ("kind", "path", "notes")
    return [
        (d.id, d.page_content, d.metadata["operator"], d.metadata["score"], {n: d.metadata[n] for n in names if n in d.metadata})
        for d in documents
    ]


def of_nodes(scored):
    names = ("kind", "path", "notes")
    return [
        (
            s.node.node_id,
            s.node.text,
            provenance(s)["operator"],
            s.score,
            {n: provenance(s)[n] for n in names if n in provenance(s)},
        )
        for s in scored
    ]


def singles(retriever):
    """The inputs of each question alone, those that are given."""
    inputs = given(retriever)
    return [{name: values[row] for name, values in inputs.items() if values[row] is not None} for row in range(4)]


@pytest.mark.parametrize("name", COMPOSITIONS)
async def test_in_langchain(name):
    engine = made(name)
    wanted = expected(engine.retrieve_batch(QUESTIONS, **given(engine)))
    retriever = LangChainRetriever(retriever=engine, provenance=True)
    for question, inputs, hits in zip(QUESTIONS, singles(engine), wanted, strict=True):
        assert of_documents(retriever.invoke(question, **inputs)) == hits
        assert of_documents(await retriever.ainvoke(question, **inputs)) == hits
        assert retriever.invoke(question, **inputs) == retriever.invoke(question, **inputs)
    kinds = {document.metadata.get("kind", "node") for document in retriever.invoke(QUESTIONS[0], **singles(engine)[0])}
    assert kinds == {hit.kind for hit in engine.retrieve(QUESTIONS[0], **singles(engine)[0])}


async def test_a_langchain_batch_is_what_each_question_gets():
    engine = made("fusion")
    retriever = LangChainRetriever(retriever=engine, provenance=True)
    inputs = {"entities": ["Glass Winter"], "plan": PLANS[1]}
    wanted = expected(engine.retrieve(question, **inputs) for question in QUESTIONS)
    assert [of_documents(found) for found in retriever.batch(QUESTIONS, **inputs)] == wanted
    assert [of_documents(found) for found in await retriever.abatch(QUESTIONS, **inputs)] == wanted
    (first, *_) = [document for document in retriever.invoke(QUESTIONS[1], **inputs) if document.id == "g1"]
    assert first.metadata["path"]["relations"] == ["written_by", "has_genre"]
    allowed = [node for node in index().graph.ids if node != "g1"]
    narrow = LangChainRetriever(retriever=engine, provenance=True, filter={"$id": {"$in": allowed}})
    assert (
        of_documents(narrow.invoke(QUESTIONS[1], **inputs))
        == expected([engine.retrieve(QUESTIONS[1], filter={"$id": {"$in": allowed}}, **inputs)])[0]
    )


@pytest.mark.parametrize("name", COMPOSITIONS)
async def test_in_llama_index(name):
    engine = made(name)
    inputs = given(engine)
    wanted = expected(engine.retrieve_batch(QUESTIONS, **inputs))
    retriever = LlamaRetriever(engine)
    assert [of_nodes(found) for found in retriever.retrieve_batch(QUESTIONS, **inputs)] == wanted
    assert [of_nodes(found) for found in await retriever.aretrieve_batch(QUESTIONS, **inputs)] == wanted
    asking = LlamaRetriever(engine, inputs={key: dict(zip(QUESTIONS, values, strict=True)).get for key, values in inputs.items()})
    for question, hits in zip(QUESTIONS, wanted, strict=True):
        assert of_nodes(asking.retrieve(question)) == hits
        assert of_nodes(await asking.aretrieve(question)) == hits


def test_llama_index_filters_hold():
    engine = made("fusion")
    retriever = LlamaRetriever(engine, filters={"$id": {"$ne": "g1"}}, similarity_top_k=4)
    wanted = engine.retrieve_batch(QUESTIONS, 4, filter={"$id": {"$ne": "g1"}}, **given(engine))
    assert [of_nodes(found) for found in retriever.retrieve_batch(QUESTIONS, **given(engine))] == expected(wanted)


def test_both_frameworks_write_the_context_of_the_hits():
    engine = made("facts and chains")
    context = engine.retrieve(QUESTIONS[1]).to_context()
    assert [part.split("\n")[0] for part in context.split("\n\n")] == ["Paths:", "Facts:", "Texts:"]
    assert langchain_context(LangChainRetriever(retriever=engine, provenance=True).invoke(QUESTIONS[1])) == context
    assert llama_context(LlamaRetriever(engine).retrieve(QUESTIONS[1])) == context
