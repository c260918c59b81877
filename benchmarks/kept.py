"""Indexes with vectors of MiniLM, which are kept in the user's cache."""

from __future__ import annotations

from typing import Any

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding_models import HostedEmbedding
from graph_retrievers.signals.sentence_encoder import minilm


def kept_index(graph: CorpusGraph, **options: Any) -> GraphIndex:
    """Return the index of a graph; `options` are those of `GraphIndex.from_graph`.

    What a system embeds of the corpus is kept too, such as the names and sentences of LinearRAG.
    """
    model = HostedEmbedding(minilm(), cache=True, max_concurrency=1, batch_size=256)
    return GraphIndex.from_graph(graph, embedding=model, show_progress=True, **options)
