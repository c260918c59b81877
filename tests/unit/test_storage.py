"""Saved indexes: what is loaded is what was saved, a failed save changes nothing, and damage is noticed."""

import json
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path, PurePosixPath
from uuid import UUID

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from graph_retrievers import Retriever
from graph_retrievers.construction.edges import NearestNeighbors
from graph_retrievers.errors import CorruptIndexError, IndexVersionError, InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex, IndexStore, storage
from graph_retrievers.systems.baselines import BM25
from tests.helpers import HashEmbedding, linked_index, linked_nodes


def small_index(marker="old"):
    """Three nodes that carry a marker, so that one saved index is told from another."""
    nodes = [Node(f"{marker}-{i}", f"text {i}", f"Title {i}", "kind", {"n": i}) for i in range(3)]
    edges = [(nodes[0].id, nodes[1].id, "next"), (nodes[1].id, nodes[2].id, "next")]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(8))


def listing(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def assert_same_graph(left, right):
    names = ("ids", "texts", "titles", "types", "metadata", "include_titles", "relation_names", "type_names")
    for name in (*names, "edge_texts", "edge_metadata"):
        assert getattr(left, name) == getattr(right, name), name
    for name in ("sources", "targets", "relations", "weights", "indptr", "indices", "degree", "node_types"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu()), name


class TestRoundTrip:
    @pytest.mark.parametrize("name", ["vector", "bm25", "hybrid", "re2", "fastinsight"])
    def test_a_loaded_index_retrieves_the_same_to_the_last_bit(self, tmp_path, name):
        index = linked_index()
        index.save(tmp_path / "index")
        loaded = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding())
        questions = ["who wrote a program for an engine", "punched cards", "codebreakers"]
        before = Retriever(index, name).retrieve_batch(questions, 7)
        after = Retriever(loaded, name).retrieve_batch(questions, 7)
        assert [[hit.to_dict() for hit in hits] for hits in after] == [[hit.to_dict() for hit in hits] for hits in before]

    def test_every_tensor_and_column_comes_back(self, tmp_path, device):
        index = linked_index().to(device)
        index.save(tmp_path / "index")
        loaded = GraphIndex.load(tmp_path / "index", device=device)
        assert loaded.device.type == device
        assert_same_graph(loaded.graph, index.graph)
        assert torch.equal(loaded.dense.vectors, index.dense.vectors)
        assert loaded.bm25.vocabulary == index.bm25.vocabulary
        (arrays, settings), (held, own) = loaded.bm25.state(), index.bm25.state()
        assert settings == own and list(arrays) == list(held)
        for name, values in held.items():
            assert torch.equal(arrays[name], values)

    @pytest.mark.slow
    def test_two_saves_write_the_same_bytes(self, tmp_path):
        for name in ("one", "two"):
            linked_index().save(tmp_path / name)
        assert listing(tmp_path / "one") == listing(tmp_path / "two")
        for name in listing(tmp_path / "one"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    @pytest.mark.parametrize(
        "signals", [{"bm25": False}, {"embedding": HashEmbedding()}, {"bm25": False, "embedding": HashEmbedding()}]
    )
    def test_signals_that_are_not_there_stay_away(self, tmp_path, signals):
        index = GraphIndex.from_nodes(linked_nodes(), **signals)
        index.save(tmp_path / "index")
        loaded = GraphIndex.load(tmp_path / "index")
        assert (loaded.has_dense, loaded.has_bm25) == (index.has_dense, index.has_bm25)
        assert loaded.graph.num_edges == 0

    def test_awkward_texts_survive(self, tmp_path):
        texts = ["", "nul \0 inside", "line\r\nbreak\u2028", "emoji 🧶 and ﷽", "'; DROP TABLE nodes; --"]
        graph = CorpusGraph([f"id {t!r}" for t in texts], texts, titles=texts, types=texts, edges=[("id ''", "id ''", "ê\0")])
        storage.write_index(tmp_path / "index", graph, {}, {})
        assert_same_graph(storage.read_saved(tmp_path / "index").graph, graph)

    @pytest.mark.slow
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        metadata=st.dictionaries(
            st.text(max_size=8),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
                max_leaves=8,
            ),
            max_size=4,
        ),
        titles=st.booleans(),
    )
    def test_any_plain_metadata_come_back_with_their_types(self, tmp_path, metadata, titles):
        graph = CorpusGraph(["a"], ["text"], metadata=[metadata], include_titles=titles)
        storage.write_index(tmp_path / "index", graph, {}, {})
        loaded = storage.read_saved(tmp_path / "index").graph
        assert repr(loaded.metadata) == repr(graph.metadata)
        assert loaded.include_titles is titles

    def test_settings_can_be_read_alone(self, tmp_path):
        small_index().save(tmp_path / "index")
        found = storage.read_settings(tmp_path / "index")
        assert found["embedding"] == {"name": "HashEmbedding", "by_name": False}
        dense = {"name": "dense", "kind": "dense", "settings": {"backend": "exact", "covers": "nodes", "metric": "dot"}}
        assert found["signals"][0] == dense
        assert [signal["name"] for signal in found["signals"]] == ["dense", "bm25"]

    @pytest.mark.slow
    @pytest.mark.parametrize("folder", [None, 0o755, 0o700])
    @pytest.mark.parametrize(("umask", "files"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640), (0o002, 0o664)])
    def test_all_files_are_as_readable_as_the_umask_says(self, tmp_path, umask, files, folder):
        place = tmp_path / "index"
        if folder is not None:
            place.mkdir()
            place.chmod(folder)
        before = os.umask(umask)
        try:
            small_index().save(place)
            IndexStore(place, embedding=HashEmbedding(8)).update(upsert=[Node("new", "A new text.")])
        finally:
            os.umask(before)
        assert {name: (place / name).stat().st_mode & 0o777 for name in listing(place)} == dict.fromkeys(listing(place), files)
        assert place.stat().st_mode & 0o777 == (0o777 & ~umask if folder is None else folder)


class TestWhereItGoes:
    def test_an_old_index_is_replaced_and_nothing_of_it_is_left(self, tmp_path):
        small_index("old").save(tmp_path / "index")
        small_index("new").save(tmp_path / "index")
        assert GraphIndex.load(tmp_path / "index").graph.ids[0] == "new-0"
        assert len(listing(tmp_path / "index")) == 4
        assert listing(tmp_path) == ["index"]

    def test_saving_the_same_index_again_is_fine(self, tmp_path):
        for _ in range(2):
            small_index().save(tmp_path / "index")
        assert len(GraphIndex.load(tmp_path / "index")) == 3

    def test_parents_are_made_and_an_empty_folder_is_taken(self, tmp_path):
        (tmp_path / "a" / "index").mkdir(parents=True)
        small_index().save(str(tmp_path / "a" / "index"))
        small_index().save(tmp_path / "b" / "c")
        assert len(GraphIndex.load(tmp_path / "a" / "index")) == len(GraphIndex.load(tmp_path / "b" / "c")) == 3

    def test_what_is_no_index_is_never_overwritten(self, tmp_path):
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "manifest.json").write_text('{"format": "something else"}')
        (tmp_path / "file").write_text("x")
        for name in ("letters", "file"):
            with pytest.raises(InvalidArgumentError, match=f"{name} exists and is not an index"):
                small_index().save(tmp_path / name)
        assert listing(tmp_path) == ["file", "letters"] and listing(tmp_path / "letters") == ["manifest.json"]

    def test_a_link_to_a_folder_stays_a_link(self, tmp_path):
        small_index("old").save(tmp_path / "index")
        (tmp_path / "link").symlink_to(tmp_path / "index")
        small_index("new").save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert GraphIndex.load(tmp_path / "index").graph.ids[0] == "new-0"


def circle():
    around = {}
    around["self"] = around
    return around


class Untouched:
    """An embedding model that must not be asked."""

    def embed_documents(self, texts):
        raise AssertionError("embedded before the metadata were checked")

    embed_query = embed_documents


class Colour(Enum):
    RED = "red"


class TestRefused:
    @pytest.mark.parametrize(
        ("metadata", "where"),
        [
            ({"deep": [{"x": {1: "int key"}}]}, "['deep'][0]['x']"),
            ({"score": float("inf")}, "['score']"),
            ({"raw": b"x"}, "['raw']"),
            ({"model": object()}, "['model']"),
            ({"text": "half a pair \ud800"}, "['text']"),
            (circle(), "nested more than"),
        ],
    )
    def test_metadata_that_json_does_not_hold_before_anything_is_embedded(self, metadata, where):
        nodes = [Node("first", "text"), Node("second", "text", metadata=metadata)]
        documents = [Document("text", id="first"), Document("text", id="second", metadata=metadata)]
        for edges in ((), NearestNeighbors(1)):
            with pytest.raises(InvalidArgumentError, match="metadata of node 'second'") as caught:
                GraphIndex.from_documents(nodes, edges=edges, embedding=Untouched())
            assert where in str(caught.value)
            with pytest.raises(InvalidArgumentError, match="metadata of node 'second'"):
                GraphIndex.from_documents(documents, edges=edges, embedding=Untouched())

    def test_metadata_of_edges(self):
        with pytest.raises(InvalidArgumentError, match=r"metadata of the edge from 'a' to 'b'\['raw'\]"):
            Edge("a", "b", metadata={"raw": b"x"})
        with pytest.raises(InvalidArgumentError, match="text of the edge from 'a' to 'b' is not valid Unicode"):
            Edge("a", "b", text="half a pair \ud800")

    @pytest.mark.parametrize("field", ["id", "text", "title", "type"])
    def test_a_text_that_is_not_unicode(self, field):
        node = replace(Node("a", "text"), **{field: "half a pair \ud800"})
        with pytest.raises(InvalidArgumentError, match=f"{field} of node '.*' is not valid Unicode"):
            GraphIndex.from_nodes([node], embedding=Untouched())

    def test_metadata_that_were_changed_after_the_index_was_built(self, tmp_path):
        index = GraphIndex.from_nodes([Node("a", "text")])
        index.graph.metadata[0]["day"] = date(1843, 1, 1)
        with pytest.raises(InvalidArgumentError, match="metadata of node 'a' was changed"):
            index.save(tmp_path / "index")
        assert listing(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, (2, "x")), [1, [2, "x"]]),
        # The order in which a set is written changes from run to run.
        pytest.param({"b", "a"}, ["a", "b"], id="set of texts"),
        pytest.param({1, "a", 0}, [0, 1, "a"], id="mixed set"),
        (date(1843, 1, 1), "1843-01-01"),
        (datetime(2024, 5, 1, 12, 30, tzinfo=UTC), "2024-05-01T12:30:00+00:00"),
        (PurePosixPath("docs/a.md"), "docs/a.md"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.datetime64("2024-05-01"), "2024-05-01"),
        (torch.tensor([1.5]), [1.5]),
        (float("nan"), None),
        (Colour.RED, "red"),
        (None, None),
        ({"deep": [(1,)]}, {"deep": [[1]]}),
    ],
    ids=str,
)
def test_usual_values_are_kept_as_json_writes_them(tmp_path, value, kept):
    index = GraphIndex.from_documents([Document("a loom", id="a", metadata={"x": value})])
    index.save(tmp_path / "index")
    for each in (index, GraphIndex.load(tmp_path / "index")):
        (found,) = each.graph.metadata
        assert found == {"x": kept} and type(found["x"]) is type(kept)
    edge = Edge("a", "b", metadata={"x": value})
    assert edge.metadata == {"x": kept}


def test_filters_read_values_as_they_are_kept(tmp_path):
    days = [date(2023, 5, 1), date(2024, 5, 1)]
    index = GraphIndex.from_texts(["a loom", "a loom"], metadatas=[{"day": day, "at": {day}} for day in days])
    for condition in ({"day": days[1]}, {"day": {"$gt": days[0]}}, {"day": {"$in": days[1:]}}, {"at": {"$contains": days[1]}}):
        assert [hit.id for hit in Retriever(index, BM25()).retrieve("loom", filter=condition)] == ["1"]


class Failing:
    """Calls of some functions, counted; the n-th does what `fail` does."""

    def __init__(self, monkeypatch, fail, at):
        self.left, self.fail = at, fail
        for owner, name in [
            (os, "fsync"),
            (os, "replace"),
            (os, "rename"),
            (Path, "rename"),
            (storage, "save_file"),
            (sqlite3, "connect"),
        ]:
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function):
        def call(*args, **kwargs):
            self.left -= 1
            if self.left == 0:
                self.fail()
            return function(*args, **kwargs)

        return call


def no_space():
    raise OSError(28, "No space left on device")


class TestFailure:
    @pytest.mark.slow
    @pytest.mark.parametrize("existing", [False, True])
    def test_a_save_that_fails_at_any_step_leaves_all_or_nothing(self, tmp_path, existing):
        finished, at = False, 0
        while not finished:
            at += 1
            folder = tmp_path / str(at)
            folder.mkdir()
            if existing:
                small_index("old").save(folder / "index")
            before = listing(folder / "index") if existing else None
            with pytest.MonkeyPatch.context() as patch:
                failing = Failing(patch, no_space, at)
                try:
                    small_index("new").save(folder / "index")
                except OSError as error:
                    assert error.errno == 28
                finished = failing.left > 0
            # Either the new index stands whole, or the place is as it was; never a temporary folder.
            assert listing(folder) in ([["index"]] if existing else [[], ["index"]])
            if listing(folder):
                marker = GraphIndex.load(folder / "index").graph.ids[0]
                assert marker in ("old-0", "new-0")
                if marker == "old-0":
                    assert listing(folder / "index") == before
        assert at > 10 and marker == "new-0"

    @pytest.mark.process
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_process_that_dies_at_any_step_leaves_the_old_index_or_the_new(self, tmp_path):
        small_index("old").save(tmp_path / "index")
        old, new = small_index("old"), small_index("new")
        statuses = []
        while not statuses or statuses[-1]:
            child = os.fork()
            if child == 0:
                with pytest.MonkeyPatch.context() as patch:
                    Failing(patch, lambda: os._exit(9), len(statuses) + 1)
                    new.save(tmp_path / "index")
                    os._exit(0)
            statuses.append(os.waitpid(child, 0)[1])
            assert GraphIndex.load(tmp_path / "index").graph.ids[0] in ("old-0", "new-0")
            old.save(tmp_path / "index")
        assert len(statuses) > 10


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "index"
    small_index().save(folder)
    return folder


def copied(saved, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir(exist_ok=True)
    for path in saved.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


class TestDamage:
    @pytest.mark.parametrize("part", ["tensors-", "nodes-", "settings-", "manifest"])
    @pytest.mark.parametrize("damage", ["missing", "empty", "half", "longer", "last byte", "first byte", "middle byte"])
    def test_each_file_damaged_in_each_way_is_named(self, saved, tmp_path, part, damage):
        folder = copied(saved, tmp_path)
        path = next(p for p in folder.iterdir() if p.name.startswith(part))
        content = bytearray(path.read_bytes())
        if damage == "missing":
            path.unlink()
        elif damage.endswith("byte"):
            content[{"last": -1, "first": 0, "middle": len(content) // 2}[damage.split()[0]]] ^= 0x10
            path.write_bytes(content)
        else:
            path.write_bytes({"empty": b"", "half": content[: len(content) // 2], "longer": content + b"\0"}[damage])
        with pytest.raises(CorruptIndexError, match=path.name):
            GraphIndex.load(folder)

    @pytest.mark.slow
    def test_no_bit_of_the_manifest_may_flip(self, saved, tmp_path):
        folder = copied(saved, tmp_path)
        content = (saved / "manifest.json").read_bytes()
        version = content.index(b'"version": ') + len(b'"version": ')
        for place in range(len(content)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << (place % 8)
            (folder / "manifest.json").write_bytes(flipped)
            # A flip can make the version look newer; it is refused all the same.
            with pytest.raises((CorruptIndexError, IndexVersionError) if place == version else CorruptIndexError):
                GraphIndex.load(folder)

    def test_a_newer_version_is_told_from_damage(self, saved, tmp_path):
        folder = copied(saved, tmp_path)
        body = json.loads((folder / "manifest.json").read_text())
        body["version"] = storage.FORMAT_VERSION + 1
        (folder / "manifest.json").write_text(json.dumps(body))
        with pytest.raises(IndexVersionError, match=r"format version 3; this package reads version 2\. Upgrade"):
            GraphIndex.load(folder)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        for write in (
            lambda: small_index("new").save(folder),
            lambda: storage.write_index(folder, CorpusGraph(["a"], ["b"]), {}, {}),
            lambda: IndexStore(folder).update(upsert=[Node("new", "A new text.")]),
        ):
            with pytest.raises(IndexVersionError, match="format version 3; .*Upgrade"):
                write()
        # The manifest of something else is not a newer index.
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "manifest.json").write_text('{"version": 9}')
        with pytest.raises(InvalidArgumentError, match="is not an index"):
            small_index("new").save(tmp_path / "other")
        # Nor where only the generation before is newer, or the newest cannot be read.
        for name, text in (("manifest.json", "torn"), ("previous.json", files["manifest.json"].decode())):
            (folder / name).write_text(text)
        with pytest.raises(IndexVersionError, match="does not replace a newer index"):
            small_index("new").save(folder)
        (folder / "previous.json").unlink()
        assert {path.name for path in folder.iterdir()} == set(files)
        body["version"] = storage.FORMAT_VERSION - 1
        (folder / "manifest.json").write_text(json.dumps(body))
        with pytest.raises(IndexVersionError, match=r"format version 1; this package reads version 2\. Build the index again"):
            GraphIndex.load(folder)
        # It is an index all the same, and may be replaced by one that can be read.
        small_index("new").save(folder)
        assert GraphIndex.load(folder).graph.ids[0] == "new-0"

    @pytest.mark.parametrize("version", ["3", "2", None, 2.5, 2.0, -1, 0, True, [2], "missing"])
    def test_an_index_of_a_version_that_is_not_known_is_neither_read_nor_replaced(self, saved, tmp_path, version):
        folder = copied(saved, tmp_path)
        body = json.loads((folder / "manifest.json").read_text())
        body = {key: value for key, value in body.items() if key not in ("checksum", "version")}
        body |= {} if version == "missing" else {"version": version}
        (folder / "manifest.json").write_text(storage._manifest_text(body))
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises((CorruptIndexError, IndexVersionError), match=r"format version (is )?"):
            GraphIndex.load(folder)
        with pytest.raises(IndexVersionError, match=r"is of format version .*; .* does not replace"):
            small_index("new").save(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
        # Nor where it is the generation before.
        (folder / "manifest.json").rename(folder / "previous.json")
        with pytest.raises(IndexVersionError, match="previous.json is of format version"):
            small_index("new").save(folder)

    def test_no_index_at_all(self, tmp_path):
        with pytest.raises(CorruptIndexError, match="There is no index at"):
            GraphIndex.load(tmp_path / "nowhere")
        with pytest.raises(CorruptIndexError, match="There is no index at"):
            GraphIndex.load(tmp_path)

    def test_a_manifest_of_something_else(self, tmp_path):
        (tmp_path / "manifest.json").write_text("[]")
        with pytest.raises(CorruptIndexError, match="belongs to something else"):
            GraphIndex.load(tmp_path)
