"""Atomic changes of folders: one writer at a time, a manifest that is replaced last, and files named by their content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from graph_retrievers.errors import IndexWriteError

__all__ = ["digest"]

MANIFEST, PREVIOUS = "manifest.json", "previous.json"

_CONTENT = re.compile(r"(tensors|nodes|settings)-[0-9a-f]{16}\.(safetensors|sqlite|json)")
_LOCK = ".lock"
_TEMPORARY = re.compile(r"\.index-[0-9a-f]{32}\.tmp")


def is_index_file(name: str) -> bool:
    """Return whether a file with this name may belong to an index, apart from the manifests."""
    return name == _LOCK or bool(_CONTENT.fullmatch(name) or _TEMPORARY.fullmatch(name))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it does not exist; wait while another process or thread holds it.

    Errors inside for lack of space or permissions raise IndexWriteError. The lock is that of the folder itself if the system
    supports it, so that it needs no file and ends with the process; otherwise a file ``.lock`` (Windows, some network drives).
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with ExitStack() as stack:
        try:
            while not _is_same_folder(folder, _acquire(folder, stack)):
                # A writer that failed has removed the folder that it had created.
                stack.close()
            for path in missing:
                sync(path.parent)
            yield
        except (OSError, sqlite3.Error, SafetensorError) as error:
            if isinstance(error, IndexWriteError):
                raise
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            failure = IndexWriteError(f"The index at {folder} cannot be written ({reason}); what was there before is unchanged.")
            failure.errno = getattr(error, "errno", None)
            raise failure from error
        finally:
            for path in missing:
                # Only empty folders are removed.
                with suppress(OSError):
                    path.rmdir()


def _acquire(folder: Path, stack: ExitStack) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Closing would not do where a process was forked meanwhile, which holds the file too.
        stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)
    except (ImportError, OSError):
        from filelock import FileLock

        stack.enter_context(FileLock(folder / _LOCK))
        return -1
    return handle


def _is_same_folder(folder: Path, handle: int) -> bool:
    if handle < 0:
        return True
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder inside `folder`, thus on its file system, and remove it afterwards."""
    draft_folder = folder / f".index-{uuid.uuid4().hex}.tmp"
    draft_folder.mkdir()
    try:
        yield draft_folder
    finally:
        shutil.rmtree(draft_folder, ignore_errors=True)


def publish(draft_folder: Path, folder: Path, names: list[str], previous: bytes | None) -> None:
    """Move files and the manifest from a temporary folder into `folder`; the manifest, which makes them the index, comes last.

    `previous` is the manifest of the generation to keep with the new one. The caller holds the lock.
    """
    for name in names:
        os.replace(draft_folder / name, folder / name)
    if previous is not None:
        (draft_folder / PREVIOUS).write_bytes(previous)
        sync(draft_folder / PREVIOUS)
        os.replace(draft_folder / PREVIOUS, folder / PREVIOUS)
    sync(folder)
    os.replace(draft_folder / MANIFEST, folder / MANIFEST)
    sync(folder)
    if previous is None:
        (folder / PREVIOUS).unlink(missing_ok=True)


def sweep(folder: Path, files: Mapping[str, list[str] | None]) -> None:
    """Remove what dead processes have left in a folder: temporary folders, and content that no manifest names.

    `files` has the files of each manifest, None for one that cannot be read; no content is then removed. The caller holds the lock.
    """
    current = {name for names in files.values() if names is not None for name in names}
    for path in folder.iterdir():
        # What cannot be removed does no harm.
        with suppress(OSError):
            if _TEMPORARY.fullmatch(path.name):
                shutil.rmtree(path)
            elif _CONTENT.fullmatch(path.name) and path.name not in current and None not in files.values():
                path.unlink()


def sync(path: Path) -> None:
    """Write a file, or a folder's list of files, from the system's buffers to the disk."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
