"""Saved indexes: a folder with the tensors, the nodes and the settings of an index, and a manifest of them.

``manifest.json`` lists every other file of the index with its size and SHA-256. The names of these files contain part of their
checksum, and the files are never changed once written. Replacing the manifest is therefore the only step that turns an old index
into a new one; a save that fails at any point leaves the old index intact.

===========================  ==================================================================================
``tensors-*.safetensors``    relationship rows with their weights, tensors of the signals
``nodes-*.sqlite``           ids, texts, titles, types and metadata (as JSON); texts and metadata of edges
``settings-*.json``          settings of the signals, such as the BM25 vocabulary
``manifest.json``            format, version, counts, files, and a checksum of itself
``previous.json``            in the folder of an index store: the manifest before that, whose files are kept too
===========================  ==================================================================================
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from graph_retrievers.arguments import as_path
from graph_retrievers.errors import CorruptIndexError, DeviceError, IndexVersionError, IndexWriteError, InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import HEAVIEST, LIGHTEST, CorpusGraph, Rows
from graph_retrievers.graph.plain import check_text, plain
from graph_retrievers.index.folders import MANIFEST, PREVIOUS, digest, is_index_file, locked, publish, sweep, sync, temporary_folder

__all__ = ["write_index"]

logger = logging.getLogger(__name__)

FORMAT_VERSION = 2
"""Version of the format that this package writes and reads."""

_FORMAT = "graph-retrievers index"
_SUFFIXES = {"tensors": "safetensors", "nodes": "sqlite", "settings": "json"}
_ROWS = ("sources", "targets", "relations", "weights")
# A manifest is as long as its names of relations.
_LONGEST = 1 << 28
_TABLES = {
    "nodes": "CREATE TABLE nodes (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, "
    "title TEXT NOT NULL, type TEXT NOT NULL, metadata TEXT NOT NULL)",
    "origins": "CREATE TABLE origins (row INTEGER PRIMARY KEY, origin TEXT NOT NULL)",
    "edges": "CREATE TABLE edges (row INTEGER PRIMARY KEY, text TEXT NOT NULL, metadata TEXT NOT NULL)",
}


# Made once: there are many small values.
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False)
_T = TypeVar("_T")
# What reading contents of an unexpected form raises.
_CONTENT_ERRORS = (ValueError, LookupError, TypeError, AttributeError)


class Saved(NamedTuple):
    """The contents of a folder: the manifest as read, and the parts that it names."""

    manifest: bytes
    graph: CorpusGraph
    tensors: dict[str, Tensor]
    settings: dict[str, Any]


def write_index(
    folder: str | os.PathLike[str], graph: CorpusGraph, tensors: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> None:
    """Write a corpus graph and its signals, their tensors and settings for JSON, to a folder, all or nothing.

    The folder is created if it does not exist. An index in it is replaced. InvalidArgumentError is raised if it contains
    something else, or metadata, a text or a setting cannot be written exactly; IndexVersionError for an index of a newer format,
    or with an invalid version number.
    """
    target = as_path("folder", folder).resolve()
    check_target(target)
    with locked(target):
        publish_index(target, graph, tensors, settings)


def publish_index(
    folder: Path, graph: CorpusGraph, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], previous: bytes | None = None
) -> bytes:
    """Write an index as :func:`write_index` does, for a caller that holds the folder's lock; return its manifest.

    `previous` is the manifest whose index is kept with the new one, and opened if the new one is damaged.
    """
    check_target(folder)
    _check_writable(graph, settings)
    # Swept first, since what dead processes have left may fill the disk.
    sweep(folder, _named_files(folder))
    try:
        with temporary_folder(folder) as draft_folder:
            rows = {f"graph.{name}": getattr(graph, name) for name in _ROWS}
            flat = {name: tensor.detach().cpu().contiguous() for name, tensor in (rows | dict(tensors)).items()}
            files = {
                "tensors": _written_file(draft_folder, "tensors", lambda path: save_file(flat, path)),
                "nodes": _written_file(draft_folder, "nodes", lambda path: _write_nodes(path, graph)),
                "settings": _written_file(draft_folder, "settings", lambda path: path.write_bytes(_dumps(settings).encode())),
            }
            body = {
                "format": _FORMAT,
                "version": FORMAT_VERSION,
                "nodes": len(graph),
                "edges": graph.num_edges,
                "relation_names": graph.relation_names,
                "include_titles": graph.include_titles,
                "files": files,
            }
            manifest = _manifest_text(body).encode()
            (draft_folder / MANIFEST).write_bytes(manifest)
            sync(draft_folder / MANIFEST)
            publish(draft_folder, folder, [entry["name"] for entry in files.values()], previous)
    finally:
        sweep(folder, _named_files(folder))
    return manifest


def _check_writable(graph: CorpusGraph, settings: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError unless what is written reads back unchanged."""
    _check_plain(settings, "settings")
    for name, entries in (("metadata", graph.metadata), ("origin", graph.origins)):
        for node, entry in zip(graph.ids, entries, strict=True):
            if entry:
                _check_plain(entry, f"{name} of node {node!r}")
    for name, texts in (("id", graph.ids), ("text", graph.texts), ("title", graph.titles), ("type", graph.types)):
        if not all(map(str.isascii, texts)):
            for node, text in zip(graph.ids, texts, strict=True):
                check_text(text, f"{name} of node {node!r}")
    for relation in graph.relation_names:
        check_text(relation, f"relation {relation!r}")
    for row, text in enumerate(graph.edge_texts):
        check_text(text, f"text of edge {row}")
    for row, entry in enumerate(graph.edge_metadata):
        _check_plain(entry, f"metadata of edge {row}")


def read_saved(folder: str | os.PathLike[str], device: str | torch.device | None = None, *, held: bool = False) -> Saved:
    """Return what :func:`write_index` wrote: the graph on a device, the CPU by default, and tensors and settings of the signals.

    `held` says that the caller holds the folder's lock. Raises CorruptIndexError, which names the file, if one is missing,
    truncated or changed; IndexVersionError if another version of the format wrote the index. The tensors of the signals are on
    the CPU.
    """
    return _read_newest(folder, lambda root, raw: _load(root, raw, device), held)


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings of a saved index without reading the rest; errors as for :func:`read_saved`."""
    return _read_newest(folder, lambda root, raw: _read_settings(_checked_path(root, _checked_manifest(root, raw), "settings")))


def current_manifest(folder: Path) -> bytes:
    """Return the newest manifest of a folder unchanged; CorruptIndexError if there is none."""
    path = folder / MANIFEST
    try:
        if path.is_file() and path.stat().st_size > _LONGEST:
            raise _corrupt(path, f"is longer than {_LONGEST} bytes")
        # Anything else than a file, such as a pipe, could wait for ever.
        return path.read_bytes() if path.is_file() or not path.exists() else b""
    except OSError as error:
        raise CorruptIndexError(
            f"There is no index at {folder}: {path} cannot be read ({error.strerror}). "
            "`graph-retrievers index DIR OUT` and GraphIndex.save write one."
        ) from error


def _read_newest(folder: str | os.PathLike[str], read: Callable[[Path, bytes], _T], held: bool = False) -> _T:
    """Return what `read` makes of the newest generation that is whole."""
    root = as_path("folder", folder)
    try:
        return read(root, current_manifest(root))
    except CorruptIndexError:
        if not (root / MANIFEST).exists() and not (root / PREVIOUS).exists():
            raise
    # A writer may have replaced it meanwhile. Nobody writes while the lock is held.
    with ExitStack() as stack:
        if not held:
            # Nobody writes where this user may not lock.
            with suppress(IndexWriteError):
                stack.enter_context(locked(root))
        try:
            return read(root, current_manifest(root))
        except CorruptIndexError as error:
            if not (root / PREVIOUS).is_file():
                raise
            result = read(root, (root / PREVIOUS).read_bytes())
            logger.warning("%s The generation before it is opened instead.", error)
            return result


def _load(root: Path, raw: bytes, device: str | torch.device | None) -> Saved:
    manifest = _checked_manifest(root, raw)
    paths = {kind: _checked_path(root, manifest, kind) for kind in _SUFFIXES}
    with _reading(paths["tensors"]):
        tensors = load_file(paths["tensors"])
        rows = [tensors.pop(f"graph.{name}") for name in _ROWS]
    with _reading(paths["nodes"]):
        columns, edge_texts, edge_metadata = _read_nodes(paths["nodes"])
    settings = _read_settings(paths["settings"])
    names = manifest["relation_names"]
    with _reading(paths["tensors"]):
        _check_rows(rows, len(columns["ids"]), len(names))
    if len(columns["ids"]) != manifest["nodes"] or rows[0].numel() != manifest["edges"]:
        raise _corrupt(root / MANIFEST, "does not fit the files beside it")
    if any(part and len(part) != manifest["edges"] for part in (edge_texts, edge_metadata)):
        raise _corrupt(paths["nodes"], "does not fit the edges")
    with _reading(paths["nodes"]):
        graph = CorpusGraph(**columns, include_titles=manifest["include_titles"], device=device)
    sources, targets, relations, weights = (row.numpy() for row in rows)
    graph._set_rows(Rows(sources, targets, relations, weights, edge_texts, edge_metadata), list(names))
    return Saved(raw, graph, tensors, settings)


def _read_settings(path: Path) -> dict[str, Any]:
    with _reading(path):
        return dict(json.loads(path.read_text("utf-8")))


def _check_rows(rows: list[Tensor], nodes: int, names: int) -> None:
    """Raise ValueError unless relationship rows name nodes and relations that there are."""
    kinds = (torch.int64, torch.int64, torch.int32, torch.float32)
    if any(row.dtype != kind or row.shape != rows[0].shape or row.dim() != 1 for row, kind in zip(rows, kinds, strict=True)):
        raise ValueError("the edges are not four columns of one length")
    limits = ((0, nodes - 1), (0, nodes - 1), (0, names - 1), (LIGHTEST, HEAVIEST))
    for name, row, (low, high) in zip(_ROWS, rows, limits, strict=True):
        if row.numel() and not bool(((row >= low) & (row <= high)).all()):
            raise ValueError(f"{name} of the edges are not from {low} to {high}")


def check_target(folder: str | os.PathLike[str]) -> None:
    """Raise InvalidArgumentError unless an index may be written to a folder: it is new, empty or contains an index.

    Raises IndexVersionError if a newer version of this package wrote that index, or its version number is invalid.
    """
    target = as_path("folder", folder).resolve()
    ours = False
    for name in (MANIFEST, PREVIOUS):
        body = _unchecked_manifest(target / name)
        version, is_index = body.get("version"), body.get("format") == _FORMAT
        ours |= is_index
        if is_index and not (type(version) is int and 1 <= version <= FORMAT_VERSION):
            raise IndexVersionError(
                f"{target / name} is of format version {shown(version)}; this package writes version {FORMAT_VERSION}, and does "
                "not replace a newer index or one of an unknown version. Upgrade graph-retrievers, or name another folder."
            )
    new = not target.exists() or (target.is_dir() and all(is_index_file(path.name) for path in target.iterdir()))
    if not new and not ours:
        raise InvalidArgumentError(f"{target} exists and is not an index; name another folder, or remove this one first.")


def _unchecked_manifest(manifest: Path) -> dict[str, Any]:
    """Return a manifest, whose contents are not checked; an empty one if it cannot be read."""
    try:
        body = json.loads(manifest.read_text("utf-8")) if manifest.is_file() else None
    except (OSError, ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {}


def _named_files(folder: Path) -> dict[str, list[str] | None]:
    """Return the files that each manifest of a folder names; None for one that cannot be read."""
    files: dict[str, list[str] | None] = {}
    for name in (MANIFEST, PREVIOUS):
        if (folder / name).exists():
            try:
                files[name] = [str(entry["name"]) for entry in _unchecked_manifest(folder / name)["files"].values()]
            except (KeyError, TypeError, AttributeError):
                files[name] = None
    return files


def _written_file(draft_folder: Path, kind: str, write: Callable[[Path], Any]) -> dict[str, Any]:
    """Write one file and name it after its content; return its entry of the manifest."""
    draft = draft_folder / f"{kind}.{_SUFFIXES[kind]}"
    write(draft)
    # safetensors makes files that only their owner can read, SQLite others than the manifest's. All are as readable as what this
    # process makes, by its umask, which the new folder shows.
    draft.chmod(draft_folder.stat().st_mode & 0o666)
    sync(draft)
    checksum = digest(draft)
    path = draft.rename(draft_folder / f"{kind}-{checksum[:16]}.{_SUFFIXES[kind]}")
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": checksum}


def _write_nodes(path: Path, graph: CorpusGraph) -> None:
    with closing(sqlite3.connect(path)) as database:
        # The file is deleted when anything fails, so it needs no journal.
        database.execute("PRAGMA journal_mode=OFF")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(_TABLES["nodes"])
        columns = zip(graph.ids, graph.texts, graph.titles, graph.types, map(_dumps, graph.metadata), strict=True)
        database.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?)", ((row, *rest) for row, rest in enumerate(columns)))
        if any(graph.origins):
            database.execute(_TABLES["origins"])
            database.executemany("INSERT INTO origins VALUES (?, ?)", enumerate(map(_dumps, graph.origins)))
        if graph.edge_texts or graph.edge_metadata:
            database.execute(_TABLES["edges"])
            texts, metadata = graph.edge_texts or [""] * graph.num_edges, graph.edge_metadata or [{}] * graph.num_edges
            rows = ((row, text, _dumps(entry)) for row, (text, entry) in enumerate(zip(texts, metadata, strict=True)))
            database.executemany("INSERT INTO edges VALUES (?, ?, ?)", rows)
        database.commit()


def _dumps(value: Any) -> str:
    # Most nodes of a large corpus have no metadata.
    return _ENCODER.encode(value) if value != {} else "{}"


def _manifest_text(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True)
    return json.dumps({**body, "checksum": hashlib.sha256(text.encode()).hexdigest()}, sort_keys=True, indent=1) + "\n"


def _check_plain(value: Any, where: str) -> None:
    """Raise unless JSON returns `value` unchanged."""
    if plain(value, where) is not value:
        raise InvalidArgumentError(f"{where} was changed to {shown(value)}, which JSON does not read back unchanged; undo this.")


def _corrupt(path: Path, what: str) -> CorruptIndexError:
    return CorruptIndexError(f"{path} {what}; build the index again or restore it from a copy.")


def _checked_manifest(root: Path, raw: bytes) -> dict[str, Any]:
    """Return a manifest from its bytes; raise CorruptIndexError or IndexVersionError if it is not what this package writes."""
    path = root / MANIFEST
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _corrupt(path, "is truncated or changed (it is not JSON)") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise _corrupt(path, f"is changed, or belongs to something else (its format is not {_FORMAT!r})")
    version = body.get("version")
    if type(version) is not int:
        raise _corrupt(path, f"is changed (its format version is {shown(version)})")
    if version != FORMAT_VERSION:
        advice = "Upgrade graph-retrievers" if version > FORMAT_VERSION else "Build the index again"
        raise IndexVersionError(f"{path} is of format version {version}; this package reads version {FORMAT_VERSION}. {advice}.")
    # The text is compared, not only its values: every byte counts.
    if _manifest_text({key: value for key, value in body.items() if key != "checksum"}).encode() != raw:
        raise _corrupt(path, "is changed (its checksum does not match)")
    names = body.get("relation_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise _corrupt(path, "has relation names that are not distinct strings")
    if any(type(body.get(name)) is not int for name in ("nodes", "edges")):
        raise _corrupt(path, "does not say how many nodes and edges there are")
    if not isinstance(body.get("include_titles"), bool):
        raise _corrupt(path, "does not say whether titles are included")
    return body


def _checked_path(root: Path, manifest: Mapping[str, Any], kind: str) -> Path:
    """Return the path of a file of the index, its size and checksum compared with the manifest."""
    with _reading(root / MANIFEST):
        entry = manifest["files"][kind]
        name, size, expected = str(entry["name"]), entry["bytes"], entry["sha256"]
    if not re.fullmatch(rf"{kind}-[0-9a-f]{{16}}\.{_SUFFIXES[kind]}", name):
        raise _corrupt(root / MANIFEST, f"names {shown(name)} as the file of the {kind}")
    path = root / name
    if not path.is_file():
        raise _corrupt(path, "is missing")
    try:
        if path.stat().st_size != size:
            raise _corrupt(path, f"holds {path.stat().st_size} bytes instead of {size}")
        if digest(path) != expected:
            raise _corrupt(path, "is changed (its checksum does not match)")
    except OSError as error:
        raise _corrupt(path, f"cannot be read ({error.strerror})") from error
    return path


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except DeviceError:
        raise
    except (SafetensorError, sqlite3.Error, OSError, RuntimeError, ArithmeticError, *_CONTENT_ERRORS) as error:
        raise _corrupt(path, f"cannot be read ({error})") from error


def _read_nodes(path: Path) -> tuple[dict[str, list[Any]], list[str], list[dict[str, Any]]]:
    """Return the columns of the nodes, and texts and metadata of the edges; empty lists where no edge has any."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        tables = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        # A view or a computed column instead of a table could run forever.
        if any(_TABLES.get(name) != sql for name, sql in tables.items()):
            raise ValueError("its tables are not those of an index")
        rows = database.execute("SELECT id, text, title, type, metadata FROM nodes ORDER BY row").fetchall()
        edges = database.execute("SELECT text, metadata FROM edges ORDER BY row").fetchall() if "edges" in tables else []
        origins = database.execute("SELECT origin FROM origins ORDER BY row").fetchall() if "origins" in tables else []
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("ids", "texts", "titles", "types", "metadata"))}
    columns["metadata"] = [json.loads(text) for text in columns["metadata"]]
    columns |= {"origins": [json.loads(text) for (text,) in origins]} if origins else {}
    texts, metadata = [text for text, _ in edges], [json.loads(entry) for _, entry in edges]
    return columns, texts if any(texts) else [], metadata if any(metadata) else []
