"""Approximate search of vectors in a navigable graph."""

import pytest
import torch
from torch.nn.functional import normalize

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import CorruptIndexError, InvalidArgumentError
from graph_retrievers.signals import dense, hnsw
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.hnsw import HNSW


def around(count, dimension=24, clusters=40, seed=0, spread=0.3):
    """Unit vectors around random directions."""
    generator = torch.Generator().manual_seed(seed)
    centers = normalize(torch.randn(clusters, dimension, generator=torch.Generator().manual_seed(9)), dim=1)
    which = torch.randint(clusters, (count,), generator=generator)
    return normalize(centers[which] + spread * torch.randn(count, dimension, generator=generator), dim=1)


def recall(found, wanted):
    return (found.unsqueeze(2) == wanted.unsqueeze(1)).any(2).float().mean().item()


def test_nearly_all_of_the_best_are_found_with_their_scores():
    vectors, queries = around(4000), around(30, seed=1)
    exact, graph = DenseIndex(vectors), DenseIndex(vectors, backend="hnsw")
    scores, rows = graph.search(queries, 10)
    assert recall(rows, exact.search(queries, 10)[1]) > 0.98
    assert bool((scores.diff(dim=1) <= 0).all())
    batch = torch.arange(30).repeat_interleave(10)
    torch.testing.assert_close(scores.flatten(), exact.scores(queries, batch, rows.flatten()))


def test_recall_is_measured_when_the_graph_is_built_and_told(tmp_path, monkeypatch):
    vectors = around(3000, 64, spread=3.0)
    # Looks at so few vectors, which have so few neighbours, that it misses many of the nearest.
    for name in ("_SEARCHING", "_NEIGHBORS", "_BUILDING"):
        monkeypatch.setattr(hnsw, name, 4)
    index = GraphIndex.from_texts([str(row) for row in range(3000)], vectors=vectors, dense_backend="hnsw")
    sample = vectors[::15]
    measured = recall(index.dense.search(sample, 10)[1], DenseIndex(vectors).search(sample, 10)[1])
    assert 0.2 < measured < 0.97 and index.dense.recall == pytest.approx(measured, abs=1e-3)
    told = f"dense, bm25; vector search finds {measured:.3f} of the ten nearest"
    assert told in str(index.describe()) and index.describe().recall == index.dense.recall
    index.save(tmp_path / "index")
    opened = GraphIndex.load(tmp_path / "index")
    assert opened.dense.recall == index.dense.recall == opened.with_changes(delete=["7"]).dense.recall
    assert DenseIndex(vectors).recall is None and "nearest" not in str(GraphIndex.from_texts(["a"], vectors=[[1.0]]).describe())


def test_a_batch_gives_what_its_queries_give_and_an_index_built_again_too():
    vectors, queries = around(2000), around(7, seed=2)
    graph = DenseIndex(vectors, backend="hnsw")
    scores, rows = graph.search(queries, 20)
    for b in range(7):
        one, alone = graph.search(queries[b : b + 1], 20)
        assert torch.equal(rows[b], alone[0]) and torch.equal(scores[b], one[0])
    assert torch.equal(rows, DenseIndex(vectors, backend="hnsw").search(queries, 20)[1])


def test_filters_scopes_few_rows_and_large_k_are_exact(monkeypatch):
    vectors, queries = around(600), around(5, seed=3)
    exact, graph = DenseIndex(vectors), DenseIndex(vectors, backend="hnsw")
    monkeypatch.setattr(hnsw, "_SEARCHING", 1)
    allowed = torch.arange(600) % 7 == 0
    assert torch.equal(graph.search(queries, 30, allowed)[1], exact.search(queries, 30, allowed)[1])
    assert torch.equal(graph.search(queries, 600)[1], exact.search(queries, 600)[1])
    rows = allowed.nonzero().flatten()
    assert torch.equal(graph.restricted(rows, []).search(queries, 30)[1], exact.restricted(rows, []).search(queries, 30)[1])
    for count in (0, 1, 2):
        small = vectors[:count]
        assert torch.equal(DenseIndex(small, backend="hnsw").search(queries, 5)[1], DenseIndex(small).search(queries, 5)[1])


def test_repeated_vectors_crowd_out_no_others():
    vectors, queries = around(2000, 16), around(20, 16, seed=5)
    vectors[torch.rand(2000, generator=torch.Generator().manual_seed(0)) < 0.5] = vectors[0].clone()
    exact, graph = DenseIndex(vectors), DenseIndex(vectors, backend="hnsw")
    assert 900 < len(graph._hnsw.outside) < 1100
    assert recall(graph.search(queries, 10)[1], exact.search(queries, 10)[1]) > 0.98
    assert graph.search(vectors[:1], 5)[1].tolist() == exact.search(vectors[:1], 5)[1].tolist(), "ties to the lower row"
    kept = torch.arange(2000)[5:]
    assert graph.updated([""] * 1995, kept, lambda texts: None)._hnsw._graph is graph._hnsw._graph, "repeats are not changes"


def test_deletions_alone_lead_to_a_new_graph_in_the_end():
    graph = HNSW.of(around(100))
    assert graph.updated(torch.arange(95)) is not None and graph.updated(torch.arange(85)) is None
    assert HNSW.of(around(110)).updated(torch.arange(100)) is not None, "a tenth is not too much"
    scores, rows = graph.updated(torch.arange(92)).search(around(100)[95:96], 3)
    assert (rows[rows >= 0] < 92).all() and bool((scores[rows < 0] == -torch.inf).all())
    signal = DenseIndex(around(100), backend="hnsw").updated([""] * 92, torch.arange(92), lambda texts: None)
    assert (signal.search(around(3, seed=1), 92)[1] >= 0).all()


def embedded(count):
    made = dict(zip([f"text {row}" for row in range(count)], around(count), strict=True))
    return lambda contents: torch.stack([made[content] for content in contents])


def test_the_graph_is_saved_and_follows_changes_without_being_built_again(tmp_path, monkeypatch):
    embed, question = embedded(700), around(20, seed=4)
    nodes = [Node(str(row), f"text {row}") for row in range(600)]
    index = GraphIndex.from_nodes(nodes, embedding=embed, dense_backend="hnsw")
    with monkeypatch.context() as patch:
        patch.setattr(HNSW, "of", None)
        index.save(tmp_path / "index")
        opened = GraphIndex.load(tmp_path / "index", embedding=embed)
        assert opened.dense.backend == "hnsw" and torch.equal(
            opened.dense.search(question, 9)[1], index.dense.search(question, 9)[1]
        )
        add = [Node(f"new {row}", f"text {row}") for row in range(600, 620)]
        changed = opened.with_changes(delete=["3", "5"], add=[*add, Node("twin", "text 8")], upsert=[Node("7", "text 690")])
        wanted = DenseIndex(changed.dense.vectors)
        assert recall(changed.dense.search(question, 9)[1], wanted.search(question, 9)[1]) == 1
        for node in ("7", "new 600", "twin", "8", "599"):
            vector = embed([changed.graph.texts[changed.graph.ids.index(node)]])
            assert changed.dense.search(vector, 1)[0].item() == pytest.approx(1)
        assert Retriever(changed, "vector").retrieve("?", 1, vector=embed(["text 690"])[0].tolist())[0].id == "7"
        gone = Retriever(changed, "vector").retrieve("?", 3, vector=embed(["text 3"])[0].tolist())
        assert "3" not in [hit.id for hit in gone] and len(gone) == 3
        changed.save(tmp_path / "changed")
        again = GraphIndex.load(tmp_path / "changed", embedding=embed)
        assert torch.equal(again.dense.search(question, 9)[1], changed.dense.search(question, 9)[1])
        more = again.with_changes(delete=["new 600", "9"])
        assert recall(more.dense.search(question, 9)[1], DenseIndex(more.dense.vectors).search(question, 9)[1]) == 1
    grown = changed.with_changes(add=[Node(f"more {row}", f"text {row}") for row in range(620, 690)])
    outside = [grown.graph.ids[row] for row in grown.dense._hnsw.outside.tolist()]
    assert outside == ["twin"], "built again when more than a tenth has changed"


def test_links_that_do_not_fit_are_refused():
    state, settings = DenseIndex(around(300), backend="hnsw").state()
    levels, neighbors, rows = (state[f"hnsw_{name}"] for name in ("levels", "neighbors", "rows"))
    upper = int((levels > 1).nonzero()[0])
    ends = torch.cumsum(torch.where(levels == 1, 64, 64 + 32 * (levels - 1)), 0)
    lowered = neighbors.clone()
    lowered[int(ends[upper]) - 32 * (int(levels[upper]) - 1)] = int((levels == 1).nonzero()[0])
    wrong = [
        {"neighbors": neighbors + 300},
        {"neighbors": neighbors[1:]},
        {"neighbors": lowered},
        {"levels": levels * 0},
        {"levels": levels + 90},
        {"levels": levels[1:]},
        {"entry": torch.tensor([300])},
        {"entry": (levels == 1).nonzero()[0]},
        {"rows": rows + 1},
        {"rows": rows * 0},
        {"rows": rows[1:]},
        {"gone": torch.zeros(1, 24)},
        {"entry": torch.tensor([float("inf")])},
        {"entry": torch.tensor([0, 0])},
        {"neighbors": neighbors.unsqueeze(1)},
        {"levels": levels.float()},
    ]
    for parts in wrong:
        with pytest.raises(InvalidArgumentError, match="links of the HNSW graph"):
            DenseIndex.restore(state | {f"hnsw_{name}": part for name, part in parts.items()}, settings)
    DenseIndex.restore(state, settings)


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(InvalidArgumentError, match="An HNSW graph is of vectors of float32"):
        DenseIndex(around(9), backend="hnsw", precision="int8")
    index = GraphIndex(GraphIndex.from_texts(["a", "b"]).graph, {"dense": DenseIndex(around(2), backend="hnsw")})
    held = index.dense.state()
    monkeypatch.setattr(dense.DenseIndex, "state", lambda _: ({"vectors": held[0]["vectors"]}, held[1]))
    index.save(tmp_path / "index")
    with pytest.raises(CorruptIndexError, match="hnsw_levels"):
        GraphIndex.load(tmp_path / "index")


def test_a_deleted_neighbourhood_is_searched_exactly_whatever_was_added():
    vectors = torch.cat([normalize(torch.eye(16)[:1] + 0.05 * around(60, 16), dim=1), around(940, 16, seed=6)])
    graph = DenseIndex(vectors, backend="hnsw")
    added = normalize(0.1 * around(10, 16, seed=7) - torch.eye(16)[:1], dim=1)
    kept = torch.cat([torch.arange(60, 1000), torch.full((10,), -1)])
    changed = graph.updated([""] * 950, kept, lambda texts: added)
    assert changed._hnsw._graph is graph._hnsw._graph
    queries = torch.cat([torch.eye(16)[:1], around(30, 16, seed=8)])
    wanted, found = DenseIndex(changed.vectors).search(queries, 5), changed.search(queries, 5)
    assert torch.equal(found[1][0], wanted[1][0]) and recall(found[1], wanted[1]) > 0.98
    for b in range(len(queries)):
        one, alone = changed.search(queries[b : b + 1], 5)
        assert torch.equal(found[1][b], alone[0]), "a batch gives what its queries give"
        torch.testing.assert_close(found[0][b], one[0])


def test_ties_that_are_not_found_go_to_the_lower_row_all_the_same():
    graph = DenseIndex(torch.eye(40), backend="hnsw")
    queries = torch.stack([torch.ones(40), torch.zeros(40), torch.eye(40)[7]])
    assert graph.search(queries, 3)[1].tolist() == [[0, 1, 2], [0, 1, 2], [7, 0, 1]]


def test_what_was_added_counts_as_changed_after_loading_too():
    vectors, rows = around(300), 300
    signal = DenseIndex(vectors, backend="hnsw")
    for turn in range(4):
        before, new = signal._hnsw._graph, around(20, seed=10 + turn)
        kept = torch.cat([torch.arange(rows), torch.full((20,), -1)])
        signal = signal.updated([""] * (rows + 20), kept, lambda texts, new=new: new)
        rows += 20
        built = signal._hnsw._graph is not before
        assert built == (turn in (1, 3)), "the second 20 are more than a tenth"
        assert len(signal._hnsw.outside) == (0 if built else 20)
        signal = DenseIndex.restore(*signal.state())
    # Rows that repeated others at first do not count, whichever of them are left.
    vectors = around(200)
    vectors[100:150] = vectors[0].clone()
    signal = DenseIndex(vectors, backend="hnsw")
    kept = torch.cat([torch.arange(100), torch.arange(130, 200), torch.full((10,), -1)])
    signal = DenseIndex.restore(*signal.updated([""] * 180, kept, lambda texts: around(10, seed=5)).state())
    assert len(signal._hnsw.outside) == 30 and len(signal._hnsw._repeated) == 20
    assert signal._hnsw.updated(torch.cat([torch.arange(180), torch.full((9,), -1)])) is None


def test_of_several_rows_with_one_content_the_first_has_its_vector():
    graph = HNSW.of(around(100)).updated(torch.cat([torch.arange(100), torch.tensor([5, 7, 5])]))
    assert graph.outside.tolist() == [100, 101, 102]
    assert graph.search(around(100)[5:6], 1)[1][0, 0] == 5


def test_an_index_of_a_scope_is_saved_with_a_graph_of_its_own(tmp_path):
    nodes = [Node(str(row), f"text {row}", metadata={"year": row % 2}) for row in range(60)]
    scoped = GraphIndex.from_nodes(nodes, vectors=around(60), dense_backend="hnsw").within({"year": 1})
    scoped.save(tmp_path / "index")
    opened, question = GraphIndex.load(tmp_path / "index"), around(4, seed=2)
    assert opened.dense._hnsw is not None and len(opened) == 30
    assert torch.equal(opened.dense.search(question, 5)[1], DenseIndex(scoped.dense.vectors).search(question, 5)[1])


def test_narrow_integers_in_a_saved_graph_are_read():
    state, settings = DenseIndex(around(60)[[0, *range(60)]], backend="hnsw").state()
    narrow = state | {f"hnsw_{name}": state[f"hnsw_{name}"].to(torch.uint8) for name in ("repeated", "rows")}
    opened = DenseIndex.restore(narrow, settings)
    assert opened.updated([""] * 60, torch.arange(60), lambda texts: None)._hnsw.outside.tolist() == [1]
