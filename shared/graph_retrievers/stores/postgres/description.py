"""The description of an index in PostgreSQL, by what the database counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from graph_retrievers.errors import EmptyGraphError
from graph_retrievers.graph.blank import BLANK
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.description import HUBS, GraphDescription, five_numbers, token_counts, with_advice
from graph_retrievers.graph.labels import path_title
from graph_retrievers.signals.embedding import described_model
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.values import decoded

# Nodes whose tokens are counted.
_TEXTS = 2000
_OF = "FROM {nodes} n WHERE n.corpus = %(corpus)s"
# The sample is even among the nodes that the user may read, which may be few of those of the index.
_SAMPLE = f"""\
SELECT s.position FROM (
    SELECT n.position, row_number() OVER (ORDER BY n.position) - 1 AS place, count(*) OVER () AS nodes {_OF}
) s WHERE s.place %% greatest(1, s.nodes / %(texts)s::bigint) = 0"""


def describe_corpus(corpus: PostgresCorpus, signals: tuple[str, ...], embedding: Any) -> GraphDescription:
    """Return the description of an index in PostgreSQL, with advice, as :func:`~graph_retrievers.graph.description.describe`.

    All of its numbers are of one state, in one round trip. Components are not counted, and tokens are those of 2,000 nodes; how
    many are longer than the model reads is estimated from these.

    Parameters
    ----------
    corpus : PostgresCorpus
    signals : tuple of str
        Names to show.
    embedding : Embedding or None
    """
    repeats = (
        f"SELECT coalesce(sum(t.nodes), 0)::bigint FROM (SELECT count(*) AS nodes {_OF} GROUP BY n.text HAVING count(*) > 1) t"
    )
    counts = f"SELECT count(*) FILTER (WHERE n.title = ''), count(*) FILTER (WHERE n.fields ? %(blank)s), ({repeats}) {_OF}"
    sample = f"SELECT n.id, n.text, n.title {_OF} AND n.position IN ({_SAMPLE}) ORDER BY n.position"
    hubs = f"SELECT n.id, n.title, n.text, n.degree {_OF} ORDER BY n.degree DESC, n.position LIMIT %(hubs)s"
    ((untitled, blank, repeated),), types, edges, degrees, hub_rows, texts = corpus.read(
        (counts, {"blank": BLANK}),
        (f"SELECT n.type, count(*) {_OF} GROUP BY n.type ORDER BY min(n.position)", {}),
        ("SELECT e.relation, count(*) FROM {edges} e WHERE e.corpus = %(corpus)s GROUP BY 1 ORDER BY min(e.position)", {}),
        (f"SELECT n.degree, count(*) {_OF} GROUP BY n.degree ORDER BY n.degree", {}),
        (hubs, {"hubs": HUBS}),
        (sample, {"texts": _TEXTS}),
    )
    if not texts:
        # A policy of the database hides all rows.
        raise EmptyGraphError(f"The user may read no node of {corpus!r}.")
    ids, contents, titles = map(list, zip(*(map(decoded, row) for row in texts), strict=True))
    graph = CorpusGraph(ids, contents, titles=titles, include_titles=corpus.traits["include_titles"])
    model, limit, model_name = described_model(embedding)
    tokens, degree = token_counts(graph.contents(), model), np.repeat(*np.array(degrees, np.int64).T)
    rows = [(decoded(name), decoded(title), decoded(text), count) for name, title, text, count in hub_rows]
    description = GraphDescription(
        nodes=len(degree),
        types={decoded(name): count for name, count in types},
        edges={decoded(name): count for name, count in edges},
        degree=five_numbers(degree),
        hubs=[(name, path_title(name, title, text), count) for name, title, text, count in rows],
        isolated=int((degree == 0).sum()),
        components=None,
        largest_component=None,
        untitled=untitled,
        tokens=five_numbers(tokens),
        readable_tokens=limit,
        truncated=0 if limit is None else round(float((tokens > limit).mean()) * len(degree)),
        repeated=repeated,
        blank=blank,
        signals=signals,
        embedding=model_name or corpus.embedding,
        language=corpus.settings["language"],
        stemmed=corpus.settings["stem"],
    )
    return with_advice(description, model)
