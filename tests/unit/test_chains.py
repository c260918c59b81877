"""Chains: bounds and notes of the search, chains as hits and as paths, passages, and hits as text."""

import numpy as np
import pytest
import torch

from graph_retrievers import Fused, Retriever, SpreadingActivation, Vector
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline, ReciprocalRankFusion
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.hits import Hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.passages import PassageGathering
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.rankings import Chains, Ranking, ranked
from tests.retrievers import on

NODES = [
    Node("curie", "A physicist.", "Marie Curie", "person"),
    Node("pierre", "A physicist too.", "Pierre Curie", "person"),
    Node("radium", "", "Radium", "element"),
    Node("warsaw", "A city in Poland.", "Warsaw", "place"),
    Node("p1", "Marie Curie, born in Warsaw, found radium.", "Life", "passage"),
    Node("p2", "Pierre Curie taught physics.", "Teaching", "passage"),
    Node("p3", "Bread is baked.", "Bread", "passage"),
]
EDGES = [
    ("curie", "radium", "discovered"),
    ("pierre", "radium", "discovered"),
    ("curie", "warsaw", "born_in"),
    ("p1", "curie", "mentions"),
    ("p1", "warsaw", "mentions"),
    ("p1", "radium", "mentions"),
    ("p2", "pierre", "mentions"),
]
QUESTION = "Who discovered Radium?"
VECTOR = [1.0, 0.0]


def science(device="cpu"):
    vectors = [[0.8, 0.6], [0.6, 0.8], [1.0, 0.0], [0.1, 1.0], [0.9, 0.3], [0.3, 0.9], [-1.0, 0.0]]
    return GraphIndex.from_nodes(NODES, EDGES, vectors=vectors, bm25=False, device=device)


def complete_graph(size):
    ids = [f"n{i}" for i in range(size)]
    edges = [(ids[a], ids[b]) for a in range(size) for b in range(a)]
    return GraphIndex(CorpusGraph(ids, [""] * size, edges=edges))


def search(index, seeds, gate=1.0, **options):
    batch = Queries.of(index, ["question"])
    start = Ranking.of(torch.tensor([seeds]), torch.ones(1, len(seeds)), "Seeds")
    ranking = ranked(GatedPropagation(gate=lambda _, b, v: gate * (1 - 0.01 * v.double())), batch, start)
    found = ranked(ChainSearch(**options), batch, ranking)
    return found.chains, found


def test_what_was_cut_off_is_told():
    index = complete_graph(12)
    whole, ranking = search(index, [0, 1])
    assert ranking.notes == ()
    narrow, ranking = search(index, [0, 1], width=4)
    assert narrow.operator == "ChainSearch"
    assert ranking.notes == (("the chains may not be the best: more than 4 prefixes were under way",),)
    best = [tuple(v for v in nodes if v >= 0) for nodes in whole.nodes[0].tolist() if nodes[0] >= 0]
    assert all(nodes[0] in (0, 1) and len(set(nodes)) == len(nodes) and 2 <= len(nodes) <= 5 for nodes in best)


def test_length_and_limit_are_kept():
    chains, _ = search(complete_graph(8), [0], length=2, limit=7, dedupe="before_limit")
    assert chains.nodes.shape == (1, 7, 3) and bool((chains.nodes >= 0).all())
    # As many as there are, and no more: 7 neighbours, each followed by one of 6.
    chains, _ = search(complete_graph(8), [0], length=2, limit=100, dedupe="before_limit")
    assert int((chains.nodes[0, :, 0] >= 0).sum()) == 42


def test_no_seeds_no_chains():
    chains, ranking = search(complete_graph(3), [-1])
    assert ranking.width == 0 and bool((chains.nodes == -1).all()) and ranking.notes == ()
    assert bool(torch.isneginf(chains.scores).all())


def chains_of(edges, level, seeds, walkable=None, **options):
    """Chains of nodes with given activations, and the notes."""
    ids = [str(node) for node in range(len(level))]
    index = GraphIndex(CorpusGraph(ids, [""] * len(ids), edges=[(str(a), str(b)) for a, b in edges]))
    question = Question(MemoryBackend(Queries.of(index, ["?"], traversal_filter=walkable)), 0)
    nodes = np.argsort(-np.array(level), kind="stable")
    trails = np.stack([np.where(np.isin(nodes, seeds), -1, seeds[0]), nodes], 1)
    found = Candidates(nodes, np.array(level, float)[nodes], trails, np.zeros(len(nodes), np.int64), ("Seeds",))
    (found,) = run(MemoryBackend(question.queries), [ChainSearch(**options).search(question, found)])
    if options.get("as_trails"):
        return {path[-1]: path for path in without_pads(found.trails)}, question.notes
    assert (np.diff(found.chains.scores) <= 0).all()
    return without_pads(found.chains.nodes), question.notes


def without_pads(rows):
    return [[node for node in row if node >= 0] for row in rows.tolist()]


def test_of_equal_means_the_shorter_chain_comes_first_then_that_of_lower_rows():
    edges, level = [(0, 1), (0, 2), (2, 3)], [1.0] * 4
    whole = {"dedupe": "before_limit", "length": 2}
    assert chains_of(edges, level, [0], **whole)[0] == [[0, 1], [0, 2, 3]]
    assert chains_of(edges, level, [0], limit=1, **whole)[0] == [[0, 1]]
    assert chains_of(edges, [1.0, 1.0, 1.0, 1.0 + 1e-9], [0], limit=1, **whole)[0] == [[0, 1]]
    # Activations whose sums differ by rounding are equal.
    assert chains_of([(0, 1), (0, 2)], [1.0, 0.5, 0.5 + 1e-12], [0])[0] == [[0, 1], [0, 2]]
    # 1 + 0.7 + 2.1 is 1 + 1.4 + 1.4, but neither in double nor in single precision.
    edges, level = [(0, 1), (1, 3), (0, 2), (2, 4)], [1.0, 0.7, 1.4, 2.1, 1.4]
    assert chains_of(edges, np.float32(level), [0], **whole)[0] == [[0, 1, 3], [0, 2, 4]]
    assert chains_of(edges, np.float32(level), [0], limit=1, **whole)[0] == [[0, 1, 3]]


def test_a_chain_and_its_reverse_are_equal_however_their_activations_add_up():
    # In double precision, (1 + 1e-16) + 1e-16 is 1 and (1e-16 + 1e-16) + 1 is more.
    edges, level = [(0, 1), (1, 2), (2, 3)], [1.0, 1e-16, 1e-16, 1e-16]
    found, _ = chains_of(edges, level, [0, 2], limit=50, length=2)
    assert [0, 1, 2] in found and [2, 1, 0] not in found


@pytest.mark.parametrize("seed", range(20))
def test_the_last_chain_of_the_limit_is_found_again_when_all_are_known(seed):
    rng = np.random.default_rng(seed)
    level = 10.0 ** rng.uniform(-14, 0, 7)
    edges = [(a, b) for a in range(7) for b in range(a) if rng.random() < 0.6]
    every = chains_of(edges, level, [0], limit=1000, length=3, dedupe="before_limit")[0]
    for limit in range(1, len(every) + 1):
        assert chains_of(edges, level, [0], limit=limit, length=3, dedupe="before_limit")[0] == every[:limit]


def test_no_note_is_told_where_what_was_cut_off_could_not_matter():
    edges, level = [(1, 0), (3, 0), (3, 2)], [1.0, 0.3, 0.9, 0.5]
    assert chains_of(edges, level, [0], limit=1, width=1, length=2) == ([[0, 3, 2]], [])
    assert chains_of(edges, level, [0], limit=2, width=1, length=2)[1] != []


def test_next_to_a_seed_that_may_not_be_entered_a_chain_is_the_end_of_one_from_there():
    edges, level, whole = [(0, 1), (1, 2)], [1.0, 0.5, 0.9], {"dedupe": "before_limit", "length": 3}
    assert chains_of(edges, level, [0, 2], {"$id": {"$in": ["0", "1"]}}, **whole)[0] == [[2, 1, 0]]
    # Unless that one cannot be walked either.
    assert chains_of(edges, level, [0, 2], {"$id": "1"}, **whole)[0] == [[0, 1], [2, 1]]


def test_a_chain_over_parallel_rows_is_found_where_the_limit_has_room_for_one():
    edges, level = [(0, 1), (0, 1), (0, 2)], [1.0, 0.9, 0.5]
    for limit, expected in ((1, [[0, 1]]), (2, [[0, 1]]), (3, [[0, 1], [0, 2]])):
        assert chains_of(edges, level, [0], limit=limit, semantics="rows")[0] == expected


def test_a_seed_has_the_chain_that_leads_to_it_though_a_better_one_starts_there():
    paths, _ = chains_of([(0, 1), (1, 2), (2, 3)], [0.5, 0.5, 1.0, 1.0], [0, 2], as_trails=True)
    assert paths == {0: [0], 1: [0, 1], 2: [0, 1, 2], 3: [2, 3]}


def test_a_chain_as_a_path_tells_no_relation_of_the_path_before_it():
    index = GraphIndex(CorpusGraph(["0", "1", "2"], [""] * 3, edges=[("0", "1"), ("1", "2"), ("0", "2")]))
    question = Question(MemoryBackend(Queries.of(index, ["?"])), 0)
    trails, relations = np.array([[-1, 0], [0, 1], [0, 2]]), np.array([[-1], [4], [4]])
    walked = Candidates(np.arange(3), np.array([1.0, 0.9, 0.1]), trails, np.zeros(3, int), ("A",), relations)
    (found,) = run(MemoryBackend(question.queries), [ChainSearch(limit=1, as_trails=True).search(question, walked)])
    assert without_pads(found.trails) == [[0], [0, 1], [0, 2]] and found.relations.tolist() == [[-1], [-1], [4]]


@pytest.mark.parametrize("options", [{"limit": 0}, {"length": 0}, {"width": 0}, {"dedupe": "never"}, {"semantics": "bag"}])
def test_options_outside_their_range(options):
    with pytest.raises(InvalidArgumentError):
        ChainSearch(**options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("steps", 0),
        ("decay", 0.0),
        ("decay", 1.5),
        ("threshold", -1),
        ("gate", "sigmoid"),
        ("semantics", "bag"),
        ("hub_exponent", 2),
    ],
)
def test_propagation_options_outside_their_range(option, value):
    with pytest.raises(InvalidArgumentError, match=option):
        GatedPropagation(**{option: value})


def test_an_index_without_vectors_can_spread_uniformly_only():
    index = GraphIndex.from_nodes(NODES, EDGES, bm25=False)
    assert [h.id for h in Retriever(index, "spreading(gate='uniform')").retrieve(QUESTION)][0] == "radium"
    with pytest.raises(MissingSignalError, match="vectors"):
        Retriever(index, "spreading").retrieve(QUESTION)


def test_chains_as_hits_come_behind_the_nodes(device):
    retriever = Retriever(science(device), SpreadingActivation(chains="hits", passages=False), backfill=False)
    hits = retriever.retrieve(QUESTION, vector=VECTOR)
    assert [h.kind for h in hits] == ["node"] * 4 + ["chain"] * (len(hits) - 4)
    chain = next(h for h in hits if h.kind == "chain" and h.path.nodes == ("radium", "curie", "warsaw"))
    assert chain.text == "Radium <-[discovered]- Marie Curie -[born_in]-> Warsaw"
    assert chain.id == "radium | curie | warsaw" and chain.operator == "ChainSearch"
    levels = {h.id: h.score for h in hits if h.kind == "node"}
    assert chain.score == pytest.approx(sum(levels[n] for n in chain.path.nodes) / 3)


def test_chains_respect_the_filter_by_their_ends():
    retriever = Retriever(science(), SpreadingActivation(chains="hits", passages=False))
    hits = retriever.retrieve(QUESTION, vector=VECTOR, filter={"$type": "person"})
    assert {h.path.nodes[-1] for h in hits if h.kind == "chain"} <= {"curie", "pierre"}
    assert {h.type for h in hits if h.kind == "node"} == {"person"}


def test_chains_as_paths_replace_the_path_that_carried():
    # d is first entered from the seed itself, but the chain through b, which has two givers, is the more active one.
    ids = ["s", "a", "b", "d"]
    edges = [("s", "a"), ("a", "b"), ("b", "d"), ("s", "d"), ("s", "b")]
    vectors = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.1, 1.0]]
    index = GraphIndex.from_graph(CorpusGraph(ids, [""] * 4, edges=edges), vectors=vectors, bm25=False)
    carried = Retriever(index, SpreadingActivation()).retrieve("s", vector=VECTOR)
    along = Retriever(index, SpreadingActivation(chains="path")).retrieve("s", vector=VECTOR)
    assert [(h.id, h.score) for h in carried] == [(h.id, h.score) for h in along]
    path = {h.id: h.path.nodes for h in carried}, {h.id: h.path.nodes for h in along}
    assert path[0]["d"] == ("s", "d")
    assert path[1]["d"] == ("s", "b", "d")
    assert path[1]["s"] == ("s",)


def test_chains_takes_known_words_only():
    with pytest.raises(InvalidArgumentError, match="chains"):
        Retriever(science(), SpreadingActivation(chains="text"))


def test_hubs_give_less_to_each_neighbour_when_damped():
    ids = ["s", "a", "b", "c", "d"]
    graph = CorpusGraph(ids, [""] * 5, edges=[("s", other) for other in ids[1:]])
    batch = Queries.of(GraphIndex(graph), ["question"])
    start = Ranking.of(torch.tensor([[0]]), torch.ones(1, 1), "Seeds")
    ranking = ranked(GatedPropagation(steps=1, gate="uniform", hub_exponent=0.5), batch, start)
    assert ranking.scores[0].tolist() == pytest.approx([1.0] + 4 * [0.7 / 2])
    # A seed without neighbours gives nothing, and takes nothing from other seeds.
    lone = Queries.of(GraphIndex(CorpusGraph(["s", "a", "lone"], [""] * 3, edges=[("s", "a")])), ["question"])
    start = Ranking.of(torch.tensor([[0, 2]]), torch.ones(1, 2), "Seeds")
    ranking = ranked(GatedPropagation(steps=1, gate="uniform", hub_exponent=0.5), lone, start)
    assert dict(zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True)) == pytest.approx({0: 1, 1: 0.7, 2: 1})


def test_nodes_whose_activations_differ_by_rounding_give_each_other_nothing():
    batch = Queries.of(GraphIndex(CorpusGraph(["s", "t"], [""] * 2, edges=[("s", "t")])), ["question"])
    spread = GatedPropagation(steps=1, gate="uniform")
    for lower, expected in ((1 - 2e-7, 1.0), (0.9, 1.6)):
        found = ranked(spread, batch, Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[1.0, lower]]), "Seeds"))
        scores = dict(zip(found.nodes[0].tolist(), found.scores[0].tolist(), strict=True))
        assert scores == pytest.approx({0: 1.0, 1: expected}, abs=1e-5)


def test_of_neighbours_that_give_as_much_up_to_rounding_the_lower_row_is_the_parent():
    batch = Queries.of(GraphIndex(CorpusGraph(["s", "t", "end"], [""] * 3, edges=[("s", "end"), ("t", "end")])), ["question"])
    start = Ranking.of(torch.tensor([[1, 0]]), torch.tensor([[1.0, 1 - 2e-7]]), "Seeds")
    found = ranked(GatedPropagation(steps=1, gate="uniform"), batch, start)
    assert found.nodes[0].tolist() == [2, 0, 1] and found.trails[0, 0].tolist() == [0, 2]


def test_traversal_and_seed_filters():
    retriever = Retriever(science(), SpreadingActivation(), backfill=False)
    hits = retriever.retrieve(QUESTION, vector=VECTOR, traversal_filter={"$type": "person"})
    assert {h.id for h in hits} == {"radium", "curie", "pierre"}
    hits = retriever.retrieve("Radium or Warsaw?", vector=VECTOR, seed_filter={"$id": "warsaw"}, traversal_filter={"$id": "none"})
    assert [h.id for h in hits] == ["warsaw"]


def test_passages_by_the_activation_of_what_they_mention(device):
    index = science(device)
    entities = Retriever(index, SpreadingActivation(passages=False), backfill=False).retrieve(QUESTION, vector=VECTOR)
    level = {h.id: h.score for h in entities}
    assert set(level) == {"curie", "pierre", "radium", "warsaw"}
    hits = Retriever(index, SpreadingActivation(passages=True), backfill=False).retrieve(QUESTION, vector=VECTOR)
    cosine = {"p1": 0.9 / 0.9**0.5, "p2": 0.3 / 0.9**0.5}
    assert [h.id for h in hits] == ["p1", "p2"]
    assert hits[0].score == pytest.approx(cosine["p1"] * (level["curie"] + level["warsaw"] + level["radium"]))
    assert hits[1].score == pytest.approx(cosine["p2"] * level["pierre"])
    assert hits[0].path.nodes == ("radium", "p1") and hits[1].path.nodes == ("radium", "pierre", "p2")
    # Filled up with passages only.
    filled = Retriever(index, SpreadingActivation(passages=True)).retrieve(QUESTION, 7, vector=VECTOR)
    assert [(h.id, h.operator) for h in filled] == [("p1", "PassageGathering"), ("p2", "PassageGathering"), ("p3", "Backfill")]


def test_passages_keep_to_the_filters_and_may_be_fused():
    index = science()
    retriever = Retriever(index, Fused(SpreadingActivation(passages=True), Vector()))
    assert [h.id for h in retriever.retrieve(QUESTION, vector=VECTOR)] == ["p1", "p2", "p3"]
    hits = retriever.retrieve(QUESTION, vector=VECTOR, filter={"$title": "Teaching"})
    assert [h.id for h in hits] == ["p2"]
    walked = Retriever(index, SpreadingActivation(passages=True), backfill=False)
    assert walked.retrieve(QUESTION, vector=VECTOR, traversal_filter={"$type": "place"}) == []


def test_passages_have_no_effect_where_there_are_none():
    plain = GraphIndex.from_nodes([n for n in NODES if n.type != "passage"], EDGES[:3], vectors=torch.ones(4, 2), bm25=False)
    default = Retriever(plain, SpreadingActivation()).retrieve(QUESTION, vector=VECTOR)
    assert Retriever(plain, SpreadingActivation(passages=True)).retrieve(QUESTION, vector=VECTOR) == default
    with pytest.raises(InvalidArgumentError, match="types"):
        PassageGathering("passage")


@pytest.mark.parametrize("name", ["spreading", "lightrag", "pathrag"])
def test_where_all_nodes_are_passages_none_is_left_out(name):
    """They are walked like nodes of any other type."""
    options = {"passages": True, "chains": None} if name == "spreading" else {}

    def found(kind):
        nodes = [Node("a", "Ada wrote.", "Ada", type=kind), Node("b", "A loom.", "Loom", type=kind)]
        index = GraphIndex.from_nodes(nodes, [("a", "b", "wrote of")], vectors=[[1.0, 0.0], [0.6, 0.8]])
        return on(index, name, backfill=False, **options).retrieve("What did Ada write?", vector=[1.0, 0.1])

    assert [(hit.id, hit.score) for hit in found("passage")] == [(hit.id, hit.score) for hit in found("page")] != []


def test_a_passage_ranking_needs_no_trails():
    index = science()
    batch = Queries.of(index, [QUESTION], vectors=[VECTOR])
    start = Ranking.of(torch.tensor([[2, 0]]), torch.tensor([[1.0, 0.5]]), "Seeds")
    ranking = ranked(PassageGathering(), batch, start)
    assert ranking.nodes.tolist() == [[4]] and ranking.trails[:, :, -2].tolist() == [[2]]
    assert [v for v in ranking.trails[0, 0].tolist() if v >= 0] == [2, 4]


def test_fusion_by_reciprocal_ranks():
    class Fixed(VectorSearch):
        def __init__(self, nodes):
            super().__init__(len(nodes))
            self.nodes = nodes

        def search(self, question, candidates):
            yield from ()
            return Candidates.seeds(np.array(self.nodes), np.arange(len(self.nodes), 0, -1.0), self.name)

    batch = Queries.of(science(), [QUESTION], vectors=[VECTOR])
    fusion = ReciprocalRankFusion(Fixed([5, 1, 2]), Fixed([1, 0, 5, 3]), weights=(1.0, 2.0), constant=5)
    ranking = ranked(fusion, batch)
    expected = {5: 1 / 6 + 2 / 8, 1: 1 / 7 + 2 / 6, 2: 1 / 8, 0: 2 / 7, 3: 2 / 9}
    found = {v: s for v, s in zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True) if v >= 0}
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=lambda v: -expected[v])
    level = ranked(ReciprocalRankFusion(Fixed([4, 2]), Fixed([2, 4])), batch)
    assert level.nodes[0].tolist() == [2, 4]


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0)])
def test_fusion_refuses_what_it_cannot_weigh(weights):
    with pytest.raises(InvalidArgumentError):
        ReciprocalRankFusion(VectorSearch(), VectorSearch(), weights=weights)
    with pytest.raises(InvalidArgumentError, match="two"):
        ReciprocalRankFusion(VectorSearch())


def test_the_hybrid_names_its_kinds_and_keeps_paths():
    retriever = Retriever(science(), "fused(systems=['spreading', 'vector'])")
    assert retriever.operator.formula() == "(O_vs -> O_vgs + O_vs)"
    assert {part.kind for part in retriever.operator.parts()} == {OperatorKind.VECTOR_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH}
    hits = retriever.retrieve(QUESTION, 5, vector=VECTOR)
    assert len(hits) == 5 and [str(h.path) for h in hits if h.id == "curie"] == ["radium <-[discovered]- curie"]


def test_hits_as_context():
    hits = Retriever(science(), SpreadingActivation(chains="hits", passages=False), backfill=False).retrieve(
        QUESTION, vector=VECTOR
    )
    text = hits.to_context().split("\n")
    assert text[0] == "Paths:"
    assert "Radium <-[discovered]- Marie Curie -[born_in]-> Warsaw" in text[: text.index("Texts:")]
    assert text[text.index("Texts:") :][1] == "- Radium (element)"
    assert "- Marie Curie (person): A physicist." in text[text.index("Texts:") :]


def test_context_without_chains_tells_the_paths():
    hits = Retriever(science(), SpreadingActivation(passages=False), backfill=False).retrieve(QUESTION, vector=VECTOR)
    lines = hits.to_context().split("\n")
    # (radium, curie) begins a longer path and is left out.
    assert set(lines[1 : lines.index("")]) == {
        "Radium <-[discovered]- Marie Curie -[born_in]-> Warsaw",
        "Radium <-[discovered]- Pierre Curie",
    }
    assert Hits().to_context() == ""


def test_an_operator_pipeline_of_ones_own():
    index = science()
    batch = Queries.of(index, [QUESTION], vectors=[VECTOR])
    ranking = ranked(Pipeline(VectorSearch(2, returned=False), GatedPropagation(k=3), ChainSearch()), batch)
    assert ranking.width == 3
    assert bool((ranking.chains.nodes[0, 0] >= 0).any())


def test_passages_of_a_question_that_names_nothing_are_none():
    nodes = [Node("e", "an entity", "Ada", "entity"), Node("p", "Ada wrote", "", "passage")]
    index = GraphIndex.from_nodes(nodes, [("p", "e", "mentions")], bm25=False)
    retriever = Retriever(index, SpreadingActivation(gate="uniform", passages=True))
    assert [[hit.id for hit in hits] for hits in retriever.retrieve_batch(["who?", "who was Ada?"])] == [[], ["p"]]
    assert retriever.retrieve("who?") == []


def test_a_chain_that_a_longer_one_ends_with_backwards_is_absorbed():
    # The three best chains are s-m, t-m and s-m-t; t-m is the end of s-m-t, read backwards, and t-m-s is not among them.
    nodes = [Node("s", "", "Sam"), Node("m", "", "Mid"), Node("t", "", "Tom")]
    index = GraphIndex.from_nodes(nodes, [("s", "m"), ("m", "t")], vectors=[[1.0]] * 3, bm25=False)

    def chains(limit):
        search = ChainSearch(limit, length=2)
        retriever = Retriever(index, SpreadingActivation(gate="uniform", steps=1, chains="hits", chain_search=search))
        hits = retriever.retrieve("q", vector=[1.0], entities=["Sam", "Tom"])
        return [hit.path.nodes for hit in hits if hit.kind == "chain"]

    assert chains(2) == [("s", "m"), ("t", "m")]
    assert chains(3) == [("s", "m", "t")]
    assert chains(4) == [("s", "m", "t")]


def chains(nodes, scores):
    return {"chains": Chains(torch.tensor(nodes), torch.tensor(scores))}


def test_chains_end_at_the_types_that_may_be_returned():
    nodes = [Node("a", "", "Boiler", "part"), Node("b", "", "Hallam", "maker"), Node("c", "", "Drain", "step")]
    index = GraphIndex.from_nodes(nodes, [("a", "b"), ("a", "c")])
    found = Retriever(index, SpreadingActivation(gate="uniform", chains="hits"), types=["maker"], backfill=False)
    hits = found.retrieve("boiler", entities=["Boiler"])
    assert [hit.id for hit in hits] == ["b", "a | b"]
