"""Vectors kept on disk: found again, told apart by model, checked, bounded, shared by processes."""

import io
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graph_retrievers import GraphIndex
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals import vector_cache
from graph_retrievers.signals.vector_cache import PROBES, VectorCache, embed_corpus


class Model:
    name = "model"

    def __init__(self, factor=1.0, stop=10**9):
        self.factor, self.stop, self.asked = factor, stop, []

    def embed_documents(self, texts):
        if len(self.asked) >= self.stop:
            raise KeyboardInterrupt
        self.asked += [text for text in texts if text not in PROBES]
        return [[self.factor * len(text), float(sum(text.encode()) % 97), 1.0] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


TEXTS = [f"text {'x' * (number % 7)} {number}" for number in range(100)]


def plain(texts):
    return torch.tensor(Model().embed_documents(texts))


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(Model(stop=64), TEXTS, cache=tmp_path)
    cache = VectorCache(model := Model(), tmp_path)
    assert torch.equal(cache.vectors(TEXTS), plain(TEXTS))
    assert (cache.hits, model.asked) == (64, TEXTS[64:])
    assert torch.equal(cache.vectors([TEXTS[3], "new", TEXTS[3]]), plain([TEXTS[3], "new", TEXTS[3]]))
    assert (cache.hits, model.asked[-1], len(model.asked)) == (2, "new", 37)
    assert cache.vectors([]).shape == (0, 3)


def test_an_index_is_built_from_the_vectors_that_are_there(tmp_path):
    whole = GraphIndex.from_texts(TEXTS, embedding=Model(), metric="dot")
    for kept in (TEXTS, []):
        first = GraphIndex.from_texts(TEXTS, embedding=(model := Model()), cache=tmp_path, metric="dot")
        assert torch.equal(first.dense.vectors, whole.dense.vectors) and model.asked == kept
    GraphIndex.from_texts([*TEXTS[:50], "one more"], embedding=model, cache=str(tmp_path), metric="dot")
    assert model.asked == ["one more"]


def test_the_users_folder_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "mine"))
    GraphIndex.from_texts(TEXTS, embedding=Model(), metric="dot")
    assert not (tmp_path / "mine").exists()
    GraphIndex.from_texts(TEXTS, embedding=Model(), cache=True, metric="dot")
    assert [path.suffix for path in (tmp_path / "mine").iterdir()] == [".sqlite"]
    with pytest.raises(InvalidArgumentError, match="cache is"):
        GraphIndex.from_texts(TEXTS, embedding=Model(), cache=3, metric="dot")


def test_models_of_one_name_with_other_weights_or_settings_share_nothing(tmp_path):
    embed_corpus(Model(), TEXTS, cache=tmp_path)
    other = Model(1.5)
    assert embed_corpus(other, TEXTS, cache=tmp_path)[0, 0] == 1.5 * len(TEXTS[0]) and other.asked == TEXTS
    shorter = Model()
    shorter.max_length = 128
    embed_corpus(shorter, TEXTS, cache=tmp_path)
    assert shorter.asked == TEXTS and len(list(tmp_path.iterdir())) == 3
    for factor in (1.0, 1.5):
        embed_corpus(again := Model(factor), TEXTS, cache=tmp_path)
        assert again.asked == []


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_damaged_vector_is_computed_again(tmp_path, place):
    embed_corpus(Model(), TEXTS, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT text, vector FROM vectors WHERE rowid IN (5, 9)").fetchall()
        for key, vector in rows:
            damaged = bytearray(vector)
            damaged[place] ^= 1
            database.execute("UPDATE vectors SET vector = ? WHERE text = ?", (bytes(damaged), key))
    database.close()
    model = Model()
    assert torch.equal(embed_corpus(model, TEXTS, cache=tmp_path), plain(TEXTS)) and len(model.asked) == 2
    # A vector that lies at the place of another text is not taken either.
    with sqlite3.connect(path) as database:
        database.execute("UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE rowid = 20) WHERE rowid = 21")
    database.close()
    assert torch.equal(embed_corpus(model, TEXTS, cache=tmp_path), plain(TEXTS)) and len(model.asked) == 3


@pytest.mark.parametrize("damage", [lambda data: b"no database" * 400, lambda data: data[:4096] + b"\xff" * (len(data) - 4096)])
def test_a_damaged_file_is_made_again(tmp_path, caplog, damage):
    embed_corpus(Model(), TEXTS, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    model = Model()
    assert torch.equal(embed_corpus(model, TEXTS, cache=tmp_path), plain(TEXTS)) and model.asked == TEXTS
    assert "are damaged" in caplog.text
    assert torch.equal(embed_corpus(model, TEXTS, cache=tmp_path), plain(TEXTS)) and model.asked == TEXTS


def test_the_oldest_vectors_are_dropped_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "_LIMIT", 40 * (4 * 3 + 8))
    cache = VectorCache(Model(), tmp_path)
    for start in range(0, len(TEXTS), 10):
        cache.vectors(TEXTS[start : start + 10])
    again = VectorCache(model := Model(), tmp_path)
    assert torch.equal(again.vectors(TEXTS), plain(TEXTS))
    assert 30 <= again.hits <= 41 and TEXTS[-1] not in model.asked and TEXTS[0] in model.asked


@pytest.mark.parametrize("told", [False, True])
def test_texts_of_several_calls_are_kept_if_their_number_is_told(tmp_path, monkeypatch, told):
    monkeypatch.setattr(vector_cache, "_LIMIT", 40 * (4 * 3 + 8))
    for model in (Model(), again := Model()):
        cache = VectorCache(model, tmp_path, size=len(TEXTS) * told)
        for start in range(0, len(TEXTS), 10):
            part = TEXTS[start : start + 10]
            assert torch.equal(cache.vectors(part), plain(part))
    assert set(TEXTS).isdisjoint(again.asked) is told


@pytest.mark.process
def test_threads_and_processes_may_use_one_folder(tmp_path):
    code = f"""if True:
        import sys
        sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from graph_retrievers.signals.vector_cache import embed_corpus
        model = lambda texts: [[float(len(text)), 1.0] for text in texts]
        for number in range(20):
            texts = [f"{{number}} {{other}}" for other in range(40)]
            found = embed_corpus(model, texts, cache=Path({str(tmp_path)!r}))
            assert found[:, 0].tolist() == [float(len(text)) for text in texts]"""
    running = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 2
    found = []
    threads = [threading.Thread(target=lambda: found.append(embed_corpus(Model(), TEXTS, cache=tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(torch.equal(vectors, plain(TEXTS)) for vectors in found)


def test_of_those_who_embed_the_same_texts_one_does(tmp_path):
    class Slow(Model):
        def embed_documents(self, texts):
            time.sleep(0.01)
            return super().embed_documents(texts)

    models = [Slow() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda model: VectorCache(model, tmp_path).vectors(TEXTS), models))
    assert all(torch.equal(vectors, plain(TEXTS)) for vectors in found)
    assert sorted(len(model.asked) for model in models) == [0, 0, 0, len(TEXTS)]
    assert [file.suffix for file in tmp_path.iterdir()] == [".sqlite"]


def test_progress_in_a_log_file_is_a_line_now_and_then(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_bar(total=5000, desc="embedding", unit="text") as bar:
        for _ in range(5000):
            bar.update(1)
    lines = log.getvalue().splitlines()
    assert "\r" not in log.getvalue() and 1 <= len(lines) <= 3
    assert lines[-1].startswith("embedding: 100%") and "5000/5000" in lines[-1]
    assert list(progress_bar(range(3), disable=True)) == [0, 1, 2] and log.getvalue().splitlines() == lines
