"""An index: built, changed, restricted to a scope, saved, and kept in a folder."""

from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.index.store import IndexStore
from graph_retrievers.search.corpus import Corpus

__all__ = ["Corpus", "GraphIndex", "IndexStore"]
