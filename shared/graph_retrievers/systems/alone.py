"""Where a walk alone is known to find less than a search."""

from graph_retrievers.index.corpus import Corpus
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.traits import LINKED, documents_linked, holds_passages, names_lead, without_names


def search_finds_more(index: Corpus, *, unless_names_lead: bool = True) -> bool:
    """Return whether hybrid search is known to find more than a walk alone on indexes like this one: over passages.

    With `unless_names_lead`, not where names lead from passage to passage along edges between documents (see
    :func:`~graph_retrievers.systems.traits.names_lead`), as in an encyclopedia. False if the index lacks vectors or BM25.
    """
    # A lexical signal of another kind does not come with a graph in a database, which is read here.
    known = index.has_dense and index.has_bm25 and index.signals["bm25"].kind == BM25.kind
    if not known or not holds_passages(index.facts):
        return False
    # Edges within documents, such as those of their structure, do not lead to nodes that names refer to.
    led = names_lead(without_names(index)) and documents_linked(index.facts) >= LINKED
    return not (unless_names_lead and led)
