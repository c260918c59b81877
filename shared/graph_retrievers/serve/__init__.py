"""Visualise searches: the page of ``graph-retrievers serve``, and one search as a file."""

from graph_retrievers.serve.page import search_page
from graph_retrievers.serve.picture import picture

__all__ = ["picture", "search_page"]
