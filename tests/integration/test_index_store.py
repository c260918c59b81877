"""The folder of an index: several writers, kills, damage, hostile files, full disks, and what is kept of a folder."""

import hashlib
import json
import logging
import os
import pickle
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from langchain_core.documents import Document
from safetensors.torch import load_file, save_file

import langchain_graph_retrievers
from benchmarks import durability
from graph_retrievers.commands.cli import main
from graph_retrievers.construction import Metadata, NearestNeighbors, TitleMentions
from graph_retrievers.errors import (
    CorruptIndexError,
    DuplicateNodeError,
    GraphRetrieverError,
    IndexWriteError,
    InvalidArgumentError,
    MissingSignalError,
    UnknownNodeError,
)
from graph_retrievers.graph import Node
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.index import GraphIndex, IndexStore, storage
from graph_retrievers.retrievers import StoreRetriever
from tests.helpers import HashEmbedding

NODES = [Node("a", "A loom weaves.", "Loom"), Node("b", "A card for a Loom.", "Card")]
UNTITLED = Document(page_content="x", id="c", metadata={"title": ["not", "one"]})
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def filled(folder, **options):
    store = IndexStore(folder, embedding=HashEmbedding(8), **options)
    store.update(upsert=NODES, add_edges=[("a", "b", "reads")])
    return store


def rewritten(folder, change):
    """Change the manifest of a folder, with a checksum that fits."""
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    del body["checksum"]
    change(body)
    path.write_text(storage._manifest_text(body))


def replaced(folder, kind, change):
    """Replace a file of an index by another with the right name, size and checksum."""
    entry = json.loads((folder / "manifest.json").read_text())["files"][kind]
    path = folder / entry["name"]
    change(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    name = f"{kind}-{digest[:16]}.{path.suffix[1:]}"
    path.rename(folder / name)
    rewritten(folder, lambda body: body["files"].update({kind: {"name": name, "bytes": len(content), "sha256": digest}}))


@pytest.mark.process
@posix
class TestUnderStress:
    def test_what_was_acknowledged_survives_kills(self, tmp_path):
        assert durability.kills(4, tmp_path / "index") == {"kept": 4}

    def test_flipped_bits_are_noticed(self, tmp_path):
        assert durability.flips(60, tmp_path / "index") == {"noticed": 60}

    @pytest.mark.parametrize("count", [2, 4])
    def test_writers_lose_nothing_and_readers_see_whole_indexes(self, tmp_path, count):
        found = durability.writers(count, 12, tmp_path / "index", readers=1)
        assert set(+found) <= {"written", "whole"} and found["written"] == 12 and found["whole"] > 0

    def test_savers_do_not_destroy_what_another_one_names(self, tmp_path):
        assert +durability.savers(16, tmp_path / "index") == {"saved": 16, "loaded": 16}


class TestFolders:
    def test_the_present_folder_keeps_its_mode_and_place(self, tmp_path, monkeypatch):
        folder = tmp_path / "place"
        folder.mkdir(mode=0o750)
        before = folder.stat()
        monkeypatch.chdir(folder)
        GraphIndex.from_texts(["a loom"]).save(".")
        GraphIndex.from_texts(["a card"]).save(".")
        after = folder.stat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
        assert GraphIndex.load(".").graph.texts == ["a card"] and len(list(folder.iterdir())) == 4

    def test_what_dead_processes_left_goes_with_the_next_save(self, tmp_path, monkeypatch):
        store = filled(tmp_path / "index")
        left = tmp_path / "index" / f".index-{'0' * 32}.tmp"
        left.mkdir()
        (left / "tensors.safetensors").write_text("half")
        (tmp_path / "index" / f"nodes-{'0' * 16}.sqlite").write_text("moved, and never named")
        (tmp_path / "index" / "notes.txt").write_text("of the user")
        write = storage.save_file

        def written(*arguments):
            # First of all, since it may fill the disk.
            assert not left.exists()
            write(*arguments)

        monkeypatch.setattr(storage, "save_file", written)
        store.update(upsert=[Node("c", "A cipher.")])
        names = sorted(path.name.partition("-")[0] for path in (tmp_path / "index").iterdir())
        # Two generations, and what is not ours.
        assert names == sorted(["manifest.json", "previous.json", "notes.txt", *["nodes", "settings", "tensors"] * 2])
        # Left by a first save that died.
        (tmp_path / "new" / f".index-{'1' * 32}.tmp").mkdir(parents=True)
        filled(tmp_path / "new")
        assert len(list((tmp_path / "new").iterdir())) == 4

    def test_other_folders_are_refused_when_the_store_is_opened(self, tmp_path):
        (tmp_path / "letter.txt").write_text("x")
        with pytest.raises(InvalidArgumentError, match="is not an index"):
            IndexStore(tmp_path)
        # Nothing is written before there is something to hold.
        IndexStore(tmp_path / "new")
        assert not (tmp_path / "new").exists()

    @pytest.mark.process
    @posix
    def test_a_full_disk_is_an_error_of_ours_and_changes_nothing(self, tmp_path, capfd):
        folder, source = tmp_path / "index", tmp_path / "pages"
        filled(folder)
        before = sorted(path.name for path in folder.iterdir())
        source.mkdir()
        (source / "a.md").write_text("# Looms\n" + "weaves cloth of many threads " * 2000)
        child = os.fork()
        if child == 0:
            durability.own_bars()
            # Writing beyond this size fails, as it does on a full disk.
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            os._exit(main(["index", str(source), str(folder), "--no-embedding"]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        message = capfd.readouterr().err.strip().splitlines()[-1]
        assert message.startswith("graph-retrievers: error: The index at") and "cannot be written (" in message
        assert sorted(path.name for path in folder.iterdir()) == before
        assert IndexStore(folder).index.graph.ids == ["a", "b"]

    def test_a_failed_write_leaves_the_store_as_it_was(self, tmp_path, monkeypatch):
        store = filled(tmp_path / "index")
        index = store.index

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(storage, "save_file", full)
            with pytest.raises(IndexWriteError, match="No space left") as caught:
                store.update(upsert=[Node("c", "A cipher.")])
        assert caught.value.errno == 28 and store.index is index
        store.update(upsert=[Node("c", "A cipher.")])
        assert IndexStore(tmp_path / "index").index.graph.ids == ["a", "b", "c"]

    def test_tensors_are_mapped_not_copied(self, tmp_path):
        GraphIndex.from_texts(["x"] * 3000, vectors=torch.eye(3000, 384), bm25=False, metric="dot").save(tmp_path / "index")
        loaded = GraphIndex.load(tmp_path / "index")
        address = loaded.dense.vectors.data_ptr()
        ranges = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "tensors-" in line]
        assert any(int(low, 16) <= address < int(high, 16) for low, high in (entry[0].split("-") for entry in ranges))


class TestGenerations:
    def test_the_last_good_generation_opens_and_goes_on(self, tmp_path, caplog):
        folder = tmp_path / "index"
        filled(folder).update(upsert=[Node("c", "A cipher.")])
        newest = json.loads((folder / "manifest.json").read_text())["files"]["tensors"]["name"]
        (folder / newest).write_bytes(b"torn")
        with caplog.at_level(logging.WARNING):
            store = IndexStore(folder, embedding=HashEmbedding(8))
        assert store.index.graph.ids == ["a", "b"] and "generation before it is opened" in caplog.text
        assert GraphIndex.load(folder).graph.ids == ["a", "b"]
        store.update(upsert=[Node("d", "A drum.")])
        # The damaged generation has not become the one before.
        (folder / "manifest.json").write_text("torn")
        assert IndexStore(folder).index.graph.ids == ["a", "b"]
        (folder / "previous.json").unlink()
        with pytest.raises(CorruptIndexError, match=r"manifest\.json is truncated or changed"):
            IndexStore(folder)

    def test_a_running_query_keeps_its_index_and_the_next_one_sees_the_new(self, tmp_path):
        store = filled(tmp_path / "index")
        retriever, before = StoreRetriever(store, "bm25", k=5), store.index
        other = IndexStore(tmp_path / "index", embedding=HashEmbedding(8))
        other.update(delete=["b"], upsert=[Node("c", "A Loom of iron.")])
        assert [hit.id for hit in retriever.retrieve("loom")] == ["a", "b"] and store.index is before
        store.reload()
        assert [hit.id for hit in retriever.retrieve("loom")] == ["a", "c"]
        assert before.graph.ids == ["a", "b"] and [hit.id for hit in StoreRetriever(store).retrieve("loom")] == ["a", "c"]

    @pytest.mark.parametrize("name", ["scope", "filter", "seed_filter", "traversal_filter"])
    def test_a_mask_made_before_a_change_shows_no_other_tenant(self, tmp_path, name):
        store = IndexStore(tmp_path / "index")
        owned = [Node("mine", "A loom.", metadata={"tenant": "a"}), Node("theirs", "A loom.", metadata={"tenant": "b"})]
        store.update(upsert=owned)
        mask = filter_mask(store.index.graph, {"tenant": "a"})
        # As many nodes as before, and the other tenant's in the row that the mask selects.
        store.update(delete=["mine"], upsert=[Node("new", "A loom.", metadata={"tenant": "a"})])
        assert store.index.graph.ids == ["theirs", "new"]
        wrapped = langchain_graph_retrievers.GraphRetriever(retriever=StoreRetriever(store, "bm25"), **{name: mask})
        for ask in (
            lambda: StoreRetriever(store, "bm25").retrieve("loom", **{name: mask}),
            lambda: wrapped.invoke("loom"),
            lambda: StoreRetriever(IndexStore(tmp_path / "empty")).retrieve("loom", **{name: mask}),
        ):
            with pytest.raises(InvalidArgumentError, match=f"^{name} is a mask, which is of one index"):
                ask()
        with pytest.raises(InvalidArgumentError, match="scope is a mask"):
            StoreRetriever(store, "bm25").retrieve_batch(["loom"], scope=[mask])
        for given in ({"tenant": "a"}, lambda node: node.metadata["tenant"] == "a"):
            assert [hit.id for hit in StoreRetriever(store, "bm25").retrieve("loom", scope=given)] == ["new"]

    def test_texts_are_embedded_once_though_another_writer_was_faster(self, tmp_path, monkeypatch):
        first = filled(tmp_path / "index")
        second = IndexStore(tmp_path / "index", embedding=HashEmbedding(8))
        seen, plain = [], second.embedding.embed_documents

        def embed(texts):
            if not seen:
                first.update(upsert=[Node("c", "A cipher.")])
            seen.extend(texts)
            return plain(texts)

        monkeypatch.setattr(second.embedding, "embed_documents", embed)
        second.update(upsert=[Node("d", "A drum.")])
        assert seen == ["A drum."] and second.index.graph.ids == ["a", "b", "c", "d"]


HOSTILE = {
    "itself": lambda body: body["files"]["nodes"].update(name="manifest.json"),
    "outside": lambda body: body["files"]["nodes"].update(name="../letter.txt"),
    "outside, with the right content": lambda body: body["files"]["nodes"].update(name=f"../{body['files']['nodes']['name']}"),
    "another kind": lambda body: body["files"]["nodes"].update(name=body["files"]["settings"]["name"]),
    "no files": lambda body: body.update(files=[]),
    "no size": lambda body: body["files"]["nodes"].pop("bytes"),
    "names": lambda body: body.update(relation_names={"a": 1}),
    "titles": lambda body: body.update(include_titles="yes"),
    "count": lambda body: body.update(nodes=7),
}


def altered(**changes):
    def change(path):
        tensors = load_file(path)
        tensors |= {name: make(tensors[name]) for name, make in ((key.replace("_", "."), made) for key, made in changes.items())}
        save_file(tensors, path)

    return change


def sql(*statements):
    def change(path):
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)

    return change


def settings(**changes):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changes))


ENDLESS = (
    "CREATE VIEW nodes AS WITH RECURSIVE n(row) AS (SELECT 1 UNION ALL SELECT row+1 FROM n) "
    "SELECT row, row AS id, '' AS text, '' AS title, '' AS type, '{}' AS metadata FROM n"
)
DAMAGED = {
    "rows beyond the nodes": ("tensors", altered(graph_sources=lambda t: t + 9)),
    "relations without a name": ("tensors", altered(graph_relations=lambda t: t + 9)),
    "a weight of nothing": ("tensors", altered(graph_weights=lambda t: t * 0)),
    "columns of several lengths": ("tensors", altered(graph_targets=lambda t: torch.cat([t, t]))),
    "vectors that are not numbers": ("tensors", altered(**{"0_vectors": lambda t: t * float("nan")})),
    "words of no text": ("tensors", altered(**{"1_rows": lambda t: t + 9})),
    "pointers that fall": ("tensors", altered(**{"1_indptr": lambda t: t.flip(0)})),
    "counts of other words": ("tensors", altered(**{"1_counts": lambda t: t[:-1]})),
    "a view without end": ("nodes", sql("DROP TABLE nodes", ENDLESS)),
    "deep metadata": ("nodes", sql("UPDATE nodes SET metadata = '" + "[" * 100_000 + "'")),
    "metadata that are a list": ("nodes", sql("UPDATE nodes SET metadata = '[]'")),
    "another schema": ("nodes", sql("CREATE INDEX more ON nodes (id)")),
    "settings of other kinds": ("settings", lambda path: path.write_text('{"signals": 3}')),
    "no model": ("settings", lambda path: path.write_text('{"signals": [], "edges": [{"rows": 1}]}')),
    "edges of other kinds": ("settings", settings(edges=[{"rows": 1, "name": "Links", "settings": 3}])),
    "more edges than there are": ("settings", settings(edges=[{"rows": 5}])),
    "less than no edges": ("settings", settings(edges=[{"rows": -1}, {"rows": 2}])),
    "signals of other kinds": ("settings", settings(signals=[3])),
    "deep settings": ("settings", lambda path: path.write_text("[" * 100_000)),
}


class TestHostile:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_manifest_names_only_what_it_may(self, tmp_path, name):
        folder = tmp_path / "index"
        (tmp_path / "letter.txt").write_text("dear")
        GraphIndex.from_nodes(NODES, [("a", "b")]).save(folder)
        rewritten(folder, HOSTILE[name])
        named = name in ("itself", "outside", "another kind", "outside, with the right content")
        for path in folder.glob("nodes-*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        with pytest.raises(CorruptIndexError, match="as the file of the nodes" if named else None):
            GraphIndex.load(folder)
        # Saving over it removes nothing else.
        GraphIndex.from_nodes(NODES).save(folder)
        assert len(GraphIndex.load(folder)) == 2 and (tmp_path / "letter.txt").read_text() == "dear"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", DAMAGED)
    def test_contents_that_are_no_index_are_refused(self, tmp_path, name, capsys):
        kind, change = DAMAGED[name]
        GraphIndex.from_nodes(NODES, [("a", "b")], embedding=HashEmbedding(8)).save(tmp_path / "index")
        replaced(tmp_path / "index", kind, change)
        with pytest.raises(CorruptIndexError):
            GraphIndex.load(tmp_path / "index")
        assert main(["inspect", str(tmp_path / "index")]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()[-1:]) == 1

    def test_a_pipe_in_the_place_of_a_manifest_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "manifest.json")
        with pytest.raises(GraphRetrieverError):
            GraphIndex.load(tmp_path)


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"add": [NODES[0]]}, DuplicateNodeError, "'a' is already a node; pass it in upsert="),
            ({"delete": ["x"]}, UnknownNodeError, "'x' is not a node"),
            ({"delete": "ab"}, InvalidArgumentError, "must be a list of strings, got .ab."),
            ({"delete_sources": ["x"]}, UnknownNodeError, "No node was made from the source 'x'"),
            ({"delete_edges": [("b", "a")]}, InvalidArgumentError, "is not an edge that was given one by one"),
            ({"delete_edges": [("a", "b", "mentions")]}, InvalidArgumentError, "is not an edge that was given one by one"),
            ({"delete_edges": [("a", "x")]}, UnknownNodeError, "'x' is not a node"),
            ({"add_edges": [("a", "x")]}, UnknownNodeError, "names 'x', which is not a node"),
            ({"delete": ["b"], "add_edges": [("a", "b")]}, UnknownNodeError, "names 'b', which is not a node"),
            ({"upsert": [Node("c", "x")], "vectors": [[1.0]]}, GraphRetrieverError, "dimensions"),
            ({"upsert": ["text"]}, InvalidArgumentError, "expected a Node"),
            ({"add": [UNTITLED], "strict": True}, InvalidArgumentError, "1 item .*metadata.'title'. of document 0 .a list"),
        ],
    )
    def test_a_wrong_change_says_what_is_wrong_and_changes_nothing(self, tmp_path, change, error, message):
        store = filled(tmp_path / "index", edges=TitleMentions())
        before, manifest = store.index, (tmp_path / "index" / "manifest.json").read_bytes()
        with pytest.raises(error, match=message):
            store.update(**change)
        assert store.index is before and (tmp_path / "index" / "manifest.json").read_bytes() == manifest

    def test_titles_that_cannot_be_used_are_left_out_unless_strict(self, tmp_path, caplog):
        store = IndexStore(tmp_path / "index")
        with pytest.raises(InvalidArgumentError, match="metadata.'title'. of document 0 .a list"):
            store.update(add=[UNTITLED], strict=True)
        assert len(store) == 0
        store.update(add=[UNTITLED])
        assert store.index.graph.titles == [""] and "Left out 1 item" in caplog.text

    def test_an_empty_store(self, tmp_path):
        store = IndexStore(tmp_path / "index", edges=NearestNeighbors(1), embedding=HashEmbedding(8))
        store.update()
        for change in ({"delete": ["a"]}, {"delete_sources": ["a"]}, {"delete_edges": [("a", "b")]}, {"add_edges": [("a", "b")]}):
            with pytest.raises(UnknownNodeError, match="is empty"):
                store.update(**change)
        assert StoreRetriever(store).retrieve("loom").notes == ("the store holds no documents",)
        with pytest.raises(InvalidArgumentError, match="give edges one by one in add_edges="):
            IndexStore(tmp_path / "index", edges=[("a", "b", "c")])

    def test_new_texts_need_a_model_and_kept_ones_do_not(self, tmp_path):
        filled(tmp_path / "index")
        store = IndexStore(tmp_path / "index")
        with pytest.raises(MissingSignalError, match="1 new texts have no vectors"):
            store.update(upsert=[Node("c", "A cipher.")])
        store.update(upsert=[Node("c", NODES[0].text, NODES[0].title)])
        assert torch.equal(store.index.dense.vectors[2], store.index.dense.vectors[0])
        store.update(upsert=[Node("d", "A drum.")], vectors=torch.ones(1, 8))
        assert store.index.dense.vectors[3].tolist() == [1.0] * 8


def last_words(node):
    """Lead from a node to the node that its last word names."""
    word = node.text.rstrip(".").split()[-1]
    return [word] if word in ("a", "b") else []


def test_specifications_of_ones_own_are_given_again(tmp_path):
    nodes = [Node("a", "reads b"), Node("b", "reads nothing")]
    index = GraphIndex.from_documents(nodes, edges=[last_words, TitleMentions()], lenient=True)
    index.save(tmp_path / "index")
    changed = GraphIndex.load(tmp_path / "index", edges=last_words).with_changes(upsert=[Node("b", "reads a")])
    assert [(edge.source, edge.target) for edge in changed.graph.edges()] == [("a", "b"), ("b", "a")]
    bare = GraphIndex.load(tmp_path / "index")
    assert bare.graph.num_edges == 1
    with pytest.raises(InvalidArgumentError, match="'last_words', which is not part of this package"):
        bare.with_changes(upsert=[Node("b", "reads a")])
    # A pickle knows no more than a saved index.
    local = GraphIndex.from_documents(nodes, edges=lambda node: last_words(node))
    copied = pickle.loads(pickle.dumps(local))  # noqa: S301
    assert copied.graph.num_edges == 1
    with pytest.raises(InvalidArgumentError, match="lambda"):
        copied.with_changes(delete=["b"])
    # What does not change documents needs no specification.
    bare.with_changes(add_edges=[("b", "a")]).save(tmp_path / "again")
    again = GraphIndex.load(tmp_path / "again", edges=[last_words]).with_changes(delete=["b"])
    assert again.graph.num_edges == 0


def test_the_command_updates_an_index(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    source, out = tmp_path / "pages", tmp_path / "index"
    source.mkdir()
    for name in "abc":
        (source / f"{name}.md").write_text(f"# Page {name}\nA loom of kind {name}, see [b](b.md).")
    assert main(["index", str(source), str(out)]) == 0
    assert "embedded before" not in capsys.readouterr().out
    (source / "a.md").unlink()
    (source / "d.md").write_text("# Page d\nA card.")
    assert main(["index", str(source), str(out)]) == 0
    assert "3 nodes, 2 of them embedded before" in capsys.readouterr().out
    assert main(["index", str(source), str(tmp_path / "fresh")]) == 0
    one, other = GraphIndex.load(out), GraphIndex.load(tmp_path / "fresh")
    assert one.graph.edges() == other.graph.edges() and one.graph.ids == other.graph.ids
    assert torch.allclose(one.dense.vectors, other.dense.vectors, atol=1e-6)
    # Another kind of index, and a damaged one, are built anew; the vectors are still kept.
    assert main(["index", str(source), str(out), "--no-embedding"]) == 0
    assert not GraphIndex.load(out).has_dense
    next(out.glob("nodes-*")).write_text("torn")
    assert main(["index", str(source), str(out)]) == 0
    assert "3 of them embedded before" in capsys.readouterr().out
    assert torch.equal(GraphIndex.load(out).dense.vectors, other.dense.vectors)


@pytest.mark.process
def test_the_benchmark_of_updates_runs(tmp_path):
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "updates.py"
    options = ["--nodes", "300", "--changes", "30", "--dimension", "8", "--sample", "0"]
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=True)
    assert "IndexStore.update" in done.stdout and "of a build" in done.stdout


def _tensors(change):
    def apply(path):
        held = {name: value.clone() for name, value in load_file(path).items()}
        change(held)
        save_file(held, path)

    return apply


def _settings(change):
    def apply(path):
        held = json.loads(path.read_text())
        change(held)
        path.write_text(json.dumps(held))

    return apply


DAMAGE = {
    "lengths one short": ("tensors", _tensors(lambda held: held.update({"1.lengths": held["1.lengths"][:-1].clone()}))),
    "lengths as a table": ("tensors", _tensors(lambda held: held.update({"1.lengths": held["1.lengths"].reshape(-1, 1).clone()}))),
    "no counts": ("tensors", _tensors(lambda held: held.update({"1.counts": held["1.counts"][:0].clone()}))),
    "scales in half precision": ("tensors", _tensors(lambda held: held.update({"0.scales": held["0.scales"].half()}))),
    "a scale too large": ("tensors", _tensors(lambda held: held["0.scales"].fill_(1e38))),
    "k1 of a text": ("settings", _settings(lambda held: held["signals"][1]["settings"].update(k1="x"))),
    "a list as a relation": ("settings", _settings(lambda held: held["edges"][0]["settings"].update(relation=["x"]))),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_parts_that_do_not_fit_are_refused_when_they_are_loaded(tmp_path, damage):
    index = GraphIndex.from_documents(NODES, edges=NearestNeighbors(1), embedding=HashEmbedding(8), dense_precision="int8")
    index.save(tmp_path)
    replaced(tmp_path, *DAMAGE[damage])
    with pytest.raises(CorruptIndexError):
        GraphIndex.load(tmp_path, embedding=HashEmbedding(8))


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_a_manifest_without_sizes_is_refused(tmp_path, name):
    GraphIndex.from_nodes(NODES, embedding=HashEmbedding(8)).save(tmp_path)
    rewritten(tmp_path, lambda body: body.pop(name))
    with pytest.raises(CorruptIndexError, match="how many nodes and edges"):
        GraphIndex.load(tmp_path, embedding=HashEmbedding(8))


@pytest.mark.parametrize("order", [1, -1])
def test_sources_of_one_kind_are_told_apart_when_an_index_is_loaded(tmp_path, order):
    specs = [Metadata("topic", "topic"), Metadata("year", "year", relation="same year")]
    first = Node("a", "A loom.", metadata={"topic": "looms", "year": 1801})
    IndexStore(tmp_path, edges=specs, embedding=HashEmbedding(8)).update(upsert=[first])
    loaded = IndexStore(tmp_path, edges=specs[::order], embedding=HashEmbedding(8))
    loaded.update(upsert=[Node("b", "A drum.", metadata={"topic": "looms", "year": 1843})])
    loaded.update(upsert=[Node("c", "A card.", metadata={"topic": "cards", "year": 1843})])
    found = {(edge.source, edge.target, edge.relation) for edge in loaded.index.graph.edges()}
    assert found == {("a", "b", "topic"), ("b", "c", "same year")}


def test_a_loaded_index_knows_which_source_found_which_edges(tmp_path):
    specs = [Metadata("topic", "topic"), Metadata("year", "year", relation="same year")]
    years = {"a": 1801, "b": 1843, "c": 1843}
    nodes = [Node(name, f"Text {name}.", metadata={"topic": "looms", "year": year}) for name, year in years.items()]
    GraphIndex.from_documents(nodes, edges=specs, embedding=HashEmbedding(8)).save(tmp_path)
    loaded = GraphIndex.load(tmp_path, edges=specs[::-1], embedding=HashEmbedding(8))
    found = [(source.spec.relation, source.rows) for source in loaded.edge_sources if source.rows]
    assert [name for name, _ in found] == ["topic", "same year"] and found[0][1] > found[1][1]


def test_a_store_without_edges_says_so_in_the_log_and_in_notes(tmp_path, caplog):
    store = IndexStore(tmp_path, embedding=HashEmbedding())
    store.update(upsert=[Node("loom", "A loom."), Node("card", "A card.")])
    retriever = StoreRetriever(store, "ppr")
    assert caplog.text.count("There are no edges, so that") == 1
    (note,) = retriever.retrieve("a loom").notes
    assert note.startswith("there are no edges, so that")
    store.update(upsert=[Node("mill", "A mill.")])
    assert retriever.retrieve("a mill").notes == (note,) and caplog.text.count("There are no edges, so that") == 1
    store.update(add_edges=[("loom", "card")])
    assert retriever.retrieve("a loom").notes == ()
