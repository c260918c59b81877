"""The models that commands load."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

__all__ = ["absolute", "query_embedding"]


def absolute(name: str) -> str:
    """Return the absolute path of a model folder, which any other working directory can use; a name as it is."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def query_embedding(args: argparse.Namespace, folder: str) -> Any:
    """Return the embedding model that ``--embedding`` names, else the one that built the index in a folder, else None."""
    from graph_retrievers.index.settings import saved_embedding
    from graph_retrievers.index.storage import read_settings
    from graph_retrievers.signals.embedding import load_embedding

    if args.embedding:
        return load_embedding(absolute(args.embedding), args.device)
    settings = read_settings(folder)
    name, by_name = saved_embedding(settings, folder)
    if by_name:
        return load_embedding(name, args.device)
    if any(isinstance(signal, dict) and signal.get("name") == "dense" for signal in settings.get("signals") or ()):
        # Not an error: some retrievers do not read vectors.
        built_with = name or "precomputed vectors"
        sys.stderr.write(f"note: the index was built with {built_with}, which cannot be loaded by name; pass --embedding.\n")
    return None
