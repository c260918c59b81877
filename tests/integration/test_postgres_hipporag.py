"""HippoRAG in PostgreSQL: a pushed walk beside the solved one in memory, with the same restart weights."""

import os
import random

import pytest
import torch

from graph_retrievers import Edge, GraphIndex, HippoRAG, HippoRAG1, Node, Pipeline, Retriever
from graph_retrievers.graph.ragged import min_max
from graph_retrievers.operators import FactLinking, PassageWalk
from graph_retrievers.stores.postgres import open_index, write_index
from graph_retrievers.systems.hipporag.fact_linking import phrase_graph
from graph_retrievers.systems.pagerank import similarities
from tests.helpers import HashEmbedding
from tests.walks import check_near

pytestmark = [pytest.mark.slow, pytest.mark.database]
MODEL = HashEmbedding(16)
# GRAPH_RETRIEVERS_CASES=1000 compares so many.
CASES = int(os.environ.get("GRAPH_RETRIEVERS_CASES", 30))
WORDS = ["loom", "card", "Ada", "mill", "oak", "ash", "elm"]
QUESTIONS = ["Who reads the loom card of Ada?", "oak and elm", "Which mill?"]
SYSTEMS = {
    "default": HippoRAG(synonyms=None),
    "much by similarity": HippoRAG(synonyms=None, passage_weight=2.0, facts=2, damping=0.8),
    "phrases alone": HippoRAG(synonyms=None, passage_weight=0),
    "selected": HippoRAG(synonyms=None, language_model=lambda prompt: '{"facts": [1]}'),
    "first": HippoRAG1(synonyms=None),
    "first, hardly moving": HippoRAG1(synonyms=None, damping=1e-6),
}
FILTERS = [
    {},
    {"filter": {"year": {"$ne": 1}}},
    {"seed_filter": {"year": {"$ne": 0}}},
    {"traversal_filter": {"year": {"$ne": 2}}},
    {"scope": {"year": {"$in": [0, 1, 3]}}},
    # Of one kind alone, each node is both.
    {"scope": {"$type": "phrase"}},
    {"scope": {"$type": "passage"}},
]


def random_graph(seed):
    """Phrases and passages, or nodes that are both, with facts, mentions, parallel edges, loops and nodes without edges."""
    draw = random.Random(seed)
    size, kinds = draw.randint(3, 40), [("phrase", "passage"), ("passage",), ("",)][draw.choice([0, 0, 1, 2])]
    nodes = [
        Node(
            f"n{row}",
            " ".join(draw.choices(WORDS, k=draw.randint(1, 4))),
            draw.choice(["", f"{draw.choice(WORDS)} {row}"]),
            kinds[row] if row < len(kinds) else draw.choice(kinds),
            # A scope of years has both kinds.
            {"year": 3 if row < len(kinds) else row % 3},
        )
        for row in range(size)
    ]
    edges = [
        Edge(
            f"n{draw.randrange(size)}",
            f"n{draw.randrange(size)}",
            draw.choice(["", "r", "wrote for"]),
            draw.choice([1.0, 0.5, 2.0]),
            draw.choice(["", "", "The loom reads the card."]),
        )
        for _ in range(draw.choice([0, size, 3 * size]))
    ]
    return nodes, edges


def index_of(nodes, edges):
    return GraphIndex.from_nodes(nodes, edges, embedding=MODEL, edge_signals=True, metric="cosine")


@pytest.mark.parametrize("part", range(5))
def test_walks_are_those_in_memory_on_random_graphs(part, postgres):
    hits = 0
    for seed in range(part, CASES, 5):
        index = index_of(*random_graph(seed))
        write_index(index, postgres, str(seed))
        remote = open_index(postgres, str(seed), embedding=MODEL)
        for name, system in SYSTEMS.items():
            for filters in FILTERS:
                there, here = (
                    Retriever(each, system, k=8, backfill=False).retrieve_batch(QUESTIONS, **filters) for each in (remote, index)
                )
                # Of phrases that add nearly the same to a passage, either may lead to it.
                check_near(there, here, paths_too=not name.startswith("first"))
                hits += sum(map(len, there))
            one = Retriever(remote, system, k=8, backfill=False)
            for question, found in zip(QUESTIONS, one.retrieve_batch(QUESTIONS), strict=True):
                assert [(hit.id, hit.score) for hit in one.retrieve(question)] == [(hit.id, hit.score) for hit in found]
    assert hits > 1000 * CASES / 30


class FromTheNearest(PassageWalk):
    """The walk in memory, with the restart weights of a walk in a database: by similarity among the 100 nearest passages."""

    name = "PassageWalk"

    def _passages(self, queries, places):
        similarity, parts = similarities(queries, places), phrase_graph(queries.index.graph, self.passage_type)
        among = similarity.new_zeros(similarity.shape, dtype=bool)
        for row, own in enumerate(similarity):
            passages = parts.passages.nonzero().flatten().tolist()
            among[row, sorted(passages, key=lambda node: (-float(own[node]), node))[:100]] = True
        low = similarity.masked_fill(~among, torch.inf).amin(1, keepdim=True)
        high = similarity.masked_fill(~among, -torch.inf).amax(1, keepdim=True)
        return min_max(similarity, low, high).masked_fill(~among, 0.0)


def test_of_many_passages_the_100_nearest_begin_the_walk(postgres):
    draw = random.Random(0)
    nodes = [Node(f"p{row}", " ".join(draw.choices(WORDS, k=6)), type="passage") for row in range(250)]
    nodes += [Node(f"e{row}", "", f"{draw.choice(WORDS)} {row}") for row in range(120)]
    edges = [(f"p{row}", f"e{draw.randrange(120)}") for row in range(250) for _ in range(3)]
    edges += [(f"e{draw.randrange(120)}", f"e{draw.randrange(120)}", draw.choice(["made", "knows"])) for _ in range(300)]
    index = index_of(nodes, edges)
    write_index(index, postgres, "many")
    remote = open_index(postgres, "many", embedding=MODEL)
    walk = Pipeline(FactLinking(), FromTheNearest(synonyms=None))
    here = Retriever(index, walk, k=20, backfill=False).retrieve_batch(QUESTIONS)
    check_near(Retriever(remote, HippoRAG(synonyms=None), k=20, backfill=False).retrieve_batch(QUESTIONS), here)
    assert all(hit.id.startswith("p") for hits in here for hit in hits)
    # Where the walk ends early, the hits say how far it came.
    few = open_index(postgres, "many", embedding=MODEL, max_nodes=400)
    (hits,) = Retriever(few, HippoRAG(synonyms=None), k=5).retrieve_batch(QUESTIONS[:1])
    assert any(note.startswith("the walk ended at max_nodes") for note in hits.notes) and len(hits) == 5


NODES = [
    Node("p1", "On Ada.", type="passage", metadata={"t": "pub"}),
    Node("p2", "On engines.", type="passage", metadata={"t": "priv"}),
]
NODES += [Node("ada", "", "Ada"), Node("engine", "", "Engine"), Node("loom", "", "Loom")]
EDGES = [("p1", "ada", "mentions"), ("p2", "engine", "mentions"), ("p2", "loom", "mentions")]
EDGES += [("ada", "engine", "wrote for"), ("engine", "loom", "recalls")]


def test_a_model_sees_no_fact_with_a_filtered_end(postgres):
    """Phrases have no metadata that the filter reads: those of passages that pass it may be told."""
    write_index(index_of(NODES, [*EDGES, ("p1", "engine", "mentions")]), postgres, "facts")
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return '{"facts": [1]}'

    retriever = Retriever(open_index(postgres, "facts", embedding=MODEL), HippoRAG(facts=1, language_model=model, synonyms=None))
    assert "facts" in prompts[0] if retriever.retrieve("What does the engine recall? Loom") and prompts else False
    assert "Engine recalls Loom" in prompts[0]
    # Only one fact is between phrases that p1 mentions, and it is not the nearest.
    retriever.retrieve("What does the engine recall? Loom", filter={"t": "pub"})
    assert "Ada wrote for Engine" in prompts[1] and "recalls" not in prompts[1]
    retriever.retrieve("What does the engine recall? Loom", traversal_filter={"$title": {"$ne": "Loom"}})
    assert "Ada wrote for Engine" in prompts[2] and "recalls" not in prompts[2]


def test_paths_and_notes(postgres):
    write_index(index_of(NODES, EDGES), postgres, "facts")
    remote = open_index(postgres, "facts", embedding=MODEL)
    hits = Retriever(remote, HippoRAG(), k=2).retrieve("What did Ada write for the Engine?")
    assert {hit.id: hit.path.text for hit in hits} == {"p1": "Ada <-[mentions]- p1", "p2": "Engine <-[mentions]- p2"}
    assert hits.notes[0] == "no synonyms are looked for in a database, which has no vectors of names"
    hits = Retriever(remote, HippoRAG1(synonyms=None), k=2).retrieve("What did Ada write?")
    assert [hit.path.text for hit in hits] == ["Ada <-[mentions]- p1", "Ada -[wrote for]-> Engine <-[mentions]- p2"]
    hits = Retriever(remote, HippoRAG(signal="edge_bm25"), k=2).retrieve("On Ada")
    assert hits.notes[0] == "no fact is looked for, as the index has no signal 'edge_bm25'; it has 'edge_dense'"
    # Without vectors of edges, passages are ranked by vector search.
    bare = GraphIndex.from_nodes(NODES, EDGES, embedding=MODEL, metric="cosine")
    write_index(bare, postgres, "bare")
    hits = Retriever(open_index(postgres, "bare", embedding=MODEL), HippoRAG(), k=2).retrieve("On Ada")
    assert hits[0].id == "p1" and "build it with edge_signals=True, and write it to PostgreSQL" in hits.notes[0]


def test_a_passage_contains_a_phrase_as_often_as_there_are_links(postgres):
    index = index_of(NODES, [*EDGES, ("p1", "ada", "mentions"), ("p1", "ada", "mentions")])
    write_index(index, postgres, "often")
    remote, system = open_index(postgres, "often", embedding=MODEL), HippoRAG1(synonyms=None, damping=0)
    there, here = (Retriever(each, system, k=2).retrieve("What did Ada write?") for each in (remote, index))
    # The walk stays at the only phrase of the question, to which p1 has three links.
    assert [(hit.id, hit.score) for hit in there][:1] == [("p1", 3.0)] == [(hit.id, hit.score) for hit in here][:1]
