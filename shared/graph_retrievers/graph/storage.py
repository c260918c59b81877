"""Saved indexes: a folder with the tensors, the nodes and the settings of an index, and a manifest of them.

``manifest.json`` lists every other file of the index with its size and SHA-256. The names of these files contain part of
their checksum, and the files are never changed once written. Replacing the manifest is therefore the one step that turns
an old index into a new one; a save that fails at any point leaves the old index intact.

===========================  ==================================================================================
``tensors-*.safetensors``    relationship rows with their weights, tensors of the signals
``nodes-*.sqlite``           ids, texts, titles, types and metadata (as JSON); texts and metadata of edges
``settings-*.json``          settings of the signals, such as the BM25 vocabulary
``manifest.json``            format, version, counts, files, and a checksum of itself
===========================  ==================================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from graph_retrievers.errors import CorruptIndexError, IndexVersionError, InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.plain import check_text, plain

__all__ = ["FORMAT_VERSION", "check_target", "read_index", "read_settings", "write_index"]

FORMAT_VERSION = 2
"""Version of the format that this package writes and reads."""

_FORMAT = "graph-retrievers index"
_MANIFEST = "manifest.json"
_ROWS = ("sources", "targets", "relations", "weights")


def write_index(
    folder: str | os.PathLike[str], graph: CorpusGraph, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> None:
    """Write a corpus graph and the signals on it to a folder, all or nothing.

    Parameters
    ----------
    folder : str or Path
        Created if it does not exist. An existing index in it is replaced; a folder with other files is an error.
    graph : CorpusGraph
    tensors : mapping of str to Tensor
        Tensors of the signals, on any device.
    settings : mapping
        JSON-plain settings of the signals.

    Raises
    ------
    InvalidArgumentError
        If the folder contains something other than an index, or if metadata, a text or a setting cannot be written
        exactly. Nothing is written in that case.
    """
    target = Path(folder).expanduser().resolve()
    check_target(target)
    _check_plain(settings, "settings")
    for row, node in enumerate(graph.ids):
        _check_plain(graph.metadata[row], f"metadata of node {node!r}")
        _check_plain(graph.origins[row], f"origin of node {node!r}")
        for name, text in (("id", node), ("text", graph.texts[row]), ("title", graph.titles[row]), ("type", graph.types[row])):
            check_text(text, f"{name} of node {node!r}")
    for relation in graph.relation_names:
        check_text(relation, f"relation {relation!r}")
    for row, text in enumerate(graph.edge_texts):
        check_text(text, f"text of edge {row}")
    for row, entry in enumerate(graph.edge_metadata):
        _check_plain(entry, f"metadata of edge {row}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _workshop(target) as made:
        rows = {f"graph.{name}": getattr(graph, name) for name in _ROWS}
        flat = {name: tensor.detach().cpu().contiguous() for name, tensor in (rows | dict(tensors)).items()}
        parts = [
            _part(made, "tensors", "safetensors", lambda path: save_file(flat, path)),
            _part(made, "nodes", "sqlite", lambda path: _write_nodes(path, graph)),
            _part(made, "settings", "json", lambda path: _write_text(path, _dumps(settings))),
        ]
        body = {
            "format": _FORMAT,
            "version": FORMAT_VERSION,
            "nodes": len(graph),
            "edges": graph.num_edges,
            "relation_names": graph.relation_names,
            "include_titles": graph.include_titles,
            "files": dict(parts),
        }
        _write_text(made / _MANIFEST, _manifest_text(body))
        _sync(made / _MANIFEST)
        _sync(made)
        _publish(made, target)


def read_index(
    folder: str | os.PathLike[str], device: str | torch.device | None = None
) -> tuple[CorpusGraph, dict[str, Tensor], dict[str, Any]]:
    """Return what :func:`write_index` wrote.

    Parameters
    ----------
    folder : str or Path
    device : str or torch.device, optional
        Device of the graph's tensors; the CPU by default. The signals' tensors are on the CPU.

    Returns
    -------
    graph : CorpusGraph
    tensors : dict of str to Tensor
    settings : dict

    Raises
    ------
    CorruptIndexError
        If a file is missing, cut short or changed; the message names it.
    IndexVersionError
        If another version of the format wrote the index.
    """
    root = Path(folder).expanduser()
    manifest = _read_manifest(root)
    paths = {kind: _checked(root, manifest, kind) for kind in ("tensors", "nodes", "settings")}
    with _reading(paths["tensors"]):
        tensors = load_file(paths["tensors"])
        rows = [tensors.pop(f"graph.{name}") for name in _ROWS]
    with _reading(paths["nodes"]):
        columns, edge_texts, edge_metadata = _read_nodes(paths["nodes"])
    with _reading(paths["settings"]):
        settings = json.loads(paths["settings"].read_text("utf-8"))
    if len(columns["ids"]) != manifest["nodes"] or rows[0].numel() != manifest["edges"]:
        raise _corrupt(root / _MANIFEST, "does not fit the files beside it")
    graph = CorpusGraph(**columns, include_titles=manifest["include_titles"], device=device)
    sources, targets, relations, weights = rows
    graph._set_rows(sources, targets, relations, list(manifest["relation_names"]), weights, edge_texts, edge_metadata)
    return graph, tensors, settings


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings of a saved index without reading the rest; errors as for :func:`read_index`."""
    root = Path(folder).expanduser()
    path = _checked(root, _read_manifest(root), "settings")
    with _reading(path):
        return dict(json.loads(path.read_text("utf-8")))


def check_target(folder: str | os.PathLike[str]) -> None:
    """Raise InvalidArgumentError unless an index may be written to a folder: it is new, empty or holds an index."""
    target = Path(folder).expanduser().resolve()
    if not target.exists():
        return
    if target.is_dir() and (not any(target.iterdir()) or _is_ours(target / _MANIFEST)):
        return
    raise InvalidArgumentError(f"{target} exists and is not an index; name another folder, or remove this one first.")


def _is_ours(manifest: Path) -> bool:
    try:
        body = json.loads(manifest.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(body, dict) and body.get("format") == _FORMAT


@contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target`, on the same file system, and remove it afterwards."""
    made = target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"
    made.mkdir()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _part(made: Path, kind: str, suffix: str, write: Callable[[Path], None]) -> tuple[str, dict[str, Any]]:
    """Write one file and name it after its content; return its entry of the manifest."""
    draft = made / f"{kind}.{suffix}"
    write(draft)
    # safetensors makes files that only their owner can read; an index is as readable as its folder.
    draft.chmod(made.stat().st_mode & 0o666)
    _sync(draft)
    digest = _sha256(draft)
    path = draft.rename(made / f"{kind}-{digest[:16]}.{suffix}")
    return kind, {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _publish(made: Path, target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    if not target.exists():
        os.rename(made, target)
        _sync(target.parent)
        return
    old, new = set(_files(target / _MANIFEST)), set(_files(made / _MANIFEST))
    try:
        for name in new:
            os.replace(made / name, target / name)
        _sync(target)
        os.replace(made / _MANIFEST, target / _MANIFEST)
    except BaseException:
        for name in new - old:
            (target / name).unlink(missing_ok=True)
        raise
    _sync(target)
    for name in old - new:
        # The new index is complete; a file that cannot be removed is harmless.
        with suppress(OSError):
            (target / name).unlink()


def _files(manifest: Path) -> list[str]:
    try:
        return [Path(entry["name"]).name for entry in json.loads(manifest.read_text("utf-8"))["files"].values()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _write_nodes(path: Path, graph: CorpusGraph) -> None:
    with closing(sqlite3.connect(path)) as database:
        # The file is deleted when anything fails, so it needs no journal.
        database.execute("PRAGMA journal_mode=OFF")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(
            "CREATE TABLE nodes (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, "
            "title TEXT NOT NULL, type TEXT NOT NULL, metadata TEXT NOT NULL)"
        )
        columns = zip(graph.ids, graph.texts, graph.titles, graph.types, map(_dumps, graph.metadata), strict=True)
        database.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?)", ((row, *rest) for row, rest in enumerate(columns)))
        if any(graph.origins):
            database.execute("CREATE TABLE origins (row INTEGER PRIMARY KEY, origin TEXT NOT NULL)")
            database.executemany("INSERT INTO origins VALUES (?, ?)", enumerate(map(_dumps, graph.origins)))
        if graph.edge_texts or graph.edge_metadata:
            database.execute("CREATE TABLE edges (row INTEGER PRIMARY KEY, text TEXT NOT NULL, metadata TEXT NOT NULL)")
            texts, metadata = graph.edge_texts or [""] * graph.num_edges, graph.edge_metadata or [{}] * graph.num_edges
            rows = ((row, text, _dumps(entry)) for row, (text, entry) in enumerate(zip(texts, metadata, strict=True)))
            database.executemany("INSERT INTO edges VALUES (?, ?, ?)", rows)
        database.commit()


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _manifest_text(body: Mapping[str, Any]) -> str:
    plain = json.dumps(body, sort_keys=True)
    return json.dumps({**body, "checksum": hashlib.sha256(plain.encode()).hexdigest()}, sort_keys=True, indent=1) + "\n"


def _sync(path: Path) -> None:
    """Write a file, or a folder's list of files, from the system's buffers to the disk."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_plain(value: Any, where: str) -> None:
    """Raise unless JSON gives `value` back as it is."""
    if plain(value, where) is not value:
        raise InvalidArgumentError(f"{where} was changed to {value!r:.80}, which JSON does not read back unchanged; undo this.")


def _corrupt(path: Path, what: str) -> CorruptIndexError:
    return CorruptIndexError(f"{path} {what}; build the index again or restore it from a copy.")


def _read_manifest(root: Path) -> dict[str, Any]:
    path = root / _MANIFEST
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CorruptIndexError(f"There is no index at {root}: {path} cannot be read ({error.strerror}).") from error
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _corrupt(path, "is truncated or changed (it is not JSON)") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise _corrupt(path, f"is changed, or belongs to something else (its format is not {_FORMAT!r})")
    version = body.get("version")
    if isinstance(version, int) and version != FORMAT_VERSION:
        advice = "Upgrade graph-retrievers" if version > FORMAT_VERSION else "Build the index again"
        raise IndexVersionError(f"{path} is of format version {version}; this package reads version {FORMAT_VERSION}. {advice}.")
    # The text is compared, not only its values: every byte counts.
    if _manifest_text({key: value for key, value in body.items() if key != "checksum"}).encode() != raw:
        raise _corrupt(path, "is changed (its checksum does not match)")
    return body


def _checked(root: Path, manifest: Mapping[str, Any], kind: str) -> Path:
    """Return the path of a file of the index, its size and checksum compared with the manifest."""
    with _reading(root / _MANIFEST):
        entry = manifest["files"][kind]
        path = root / Path(entry["name"]).name
    if not path.is_file():
        raise _corrupt(path, "is missing")
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise _corrupt(path, f"holds {size} bytes instead of {entry['bytes']}")
    if _sha256(path) != entry["sha256"]:
        raise _corrupt(path, "is changed (its checksum does not match)")
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise _corrupt(path, f"cannot be read ({error})") from error


def _read_nodes(path: Path) -> tuple[dict[str, list[Any]], list[str], list[dict[str, Any]]]:
    """Return the columns of the nodes, and texts and metadata of the edges; empty lists where no edge has any."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        rows = database.execute("SELECT id, text, title, type, metadata FROM nodes ORDER BY row").fetchall()
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        edges = database.execute("SELECT text, metadata FROM edges ORDER BY row").fetchall() if "edges" in tables else []
        origins = database.execute("SELECT origin FROM origins ORDER BY row").fetchall() if "origins" in tables else []
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("ids", "texts", "titles", "types", "metadata"))}
    columns["metadata"] = [json.loads(text) for text in columns["metadata"]]
    columns |= {"origins": [json.loads(text) for (text,) in origins]} if origins else {}
    return columns, [text for text, _ in edges], [json.loads(entry) for _, entry in edges]
