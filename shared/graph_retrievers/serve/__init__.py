"""Visualise searches: the page of ``graph-retrievers serve``, and one search as a file."""

from graph_retrievers.serve.picture import picture, search_page

__all__ = ["picture", "search_page"]
