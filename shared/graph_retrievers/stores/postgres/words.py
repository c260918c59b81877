"""The words of an index in PostgreSQL, searched by BM25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from typing import Any, Self

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable
from graph_retrievers.stores.postgres.vectors import members_of

__all__ = ["PostgresWords"]

# Bytes of a term: an entry of an index has 2,700.
_LONGEST = 500
# The texts that have a term; in a scope, those of its nodes.
_HAVE = "t.nodes"
_HAVE_OF_SCOPE = "(SELECT count(*) FROM {words} o WHERE o.corpus = %(corpus)s AND o.term = t.term AND o.node = ANY(%(members)s))"
_TERMS = """\
WITH asked AS MATERIALIZED (
    SELECT a.query, a.place, a.term, a.times, ln(1 + (%(nodes)s - h.nodes + 0.5) / (h.nodes + 0.5))::real AS idf
    FROM unnest(%(queries)s::integer[], %(places)s::integer[], %(terms)s::text[], %(times)s::integer[])
        AS a (query, place, term, times)
    JOIN {terms} t ON t.corpus = %(corpus)s AND t.term = a.term
    CROSS JOIN LATERAL (SELECT @have@::double precision AS nodes) h
)
"""
_SCORE = "a.times * (a.idf * (w.count / (%(k1)s * (1 - %(b)s + %(b)s * w.length / %(mean)s) + w.count)))::real"
# Of nodes with the same score, all are looked at, so that those with the lowest positions are found.
_SEARCH = f"""{_TERMS}\
SELECT query, id, score FROM (
    SELECT s.query, n.id, n.position, s.score, row_number() OVER (PARTITION BY s.query ORDER BY s.score DESC, n.position) AS place
    FROM (
        SELECT query, node, score, rank() OVER (PARTITION BY query ORDER BY score DESC) AS place FROM (
            SELECT a.query, w.node, sum({_SCORE})::real AS score
            FROM asked a JOIN {{words}} w ON w.corpus = %(corpus)s AND w.term = a.term@among@
            GROUP BY a.query, w.node
        ) x
    ) s JOIN {{nodes}} n ON n.corpus = %(corpus)s AND n.node = s.node WHERE s.place <= %(k)s
) y
WHERE place <= %(k)s ORDER BY query, score DESC, position"""
_OF_IDS = f"""{_TERMS}\
SELECT a.query, a.place, n.id, ({_SCORE})::real
FROM unnest(%(owners)s::integer[], %(ids)s::text[]) AS i (query, id)
JOIN {{nodes}} n ON n.corpus = %(corpus)s AND n.id = i.id
JOIN asked a ON a.query = i.query
JOIN {{words}} w ON w.corpus = %(corpus)s AND w.node = n.node AND w.term = a.term@among@"""


class PostgresWords:
    r"""The words of an index in PostgreSQL as a WordStore: BM25 with the scores in memory, up to rounding.

    A row has for each word of a node its count and the number of words of the text, so that the weight is computed with what is
    true of the corpus at the time: :math:`\mathrm{idf} \cdot f / (f + k_1 (1 - b + b L / \bar L))`, in the form of Lucene. In a
    scope, idf and mean length are those of its nodes. Texts are split as by :class:`~graph_retrievers.signals.bm25.BM25`.

    Parameters
    ----------
    corpus : PostgresCorpus

    Raises
    ------
    InvalidArgumentError
        If the words were written by a version that cut texts into others.
    DatabaseError
        From the methods: if the database fails or does not answer in time, or if the index was changed since `corpus` was made.

    References
    ----------
    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.

    Examples
    --------
    >>> from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase
    >>> words = PostgresWords(PostgresCorpus(PostgresDatabase("postgresql://localhost/works"), "machines"))  # doctest: +SKIP
    >>> words.search(["Which loom?"], 2)  # doctest: +SKIP
    [[('loom', 0.59)]]
    """

    def __init__(self, corpus: PostgresCorpus) -> None:
        if not isinstance(corpus, PostgresCorpus):
            raise InvalidArgumentError(
                f"Expected a PostgresCorpus, got {type(corpus).__name__}; make one with PostgresCorpus(database, name)."
            )
        if BM25.is_older(corpus.settings):
            raise InvalidArgumentError(
                f"The words of {corpus!r} were cut in another way by an earlier version; write the index again with write_index."
            )
        self.corpus = corpus
        self._analyser = BM25([], **{name: corpus.settings[name] for name in BM25.options})
        self._ids: Collection[str] | None = None
        self._members: list[tuple[int, int]] | None = None

    def __repr__(self) -> str:
        """Return the corpus."""
        return f"PostgresWords({self.corpus!r})"

    def traits(self) -> Mapping[str, Any]:
        """Return the properties of the index from when it was written."""
        return self.corpus.traits  # type: ignore[no-any-return]

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; its search ranks and counts words among them."""
        made = copy(self)
        made._ids, made._members = ids, None
        return made

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the k best matches of each text, best first; the first search of a scope takes two trips."""
        found: list[list[tuple[str, float]]] = [[] for _ in texts]
        for query, name, score in self._asked(_SEARCH, self._terms(texts), k=k):
            found[query].append((decoded(name), score))
        return found

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores by id of each distinct word of some texts, each text for its own ids."""
        terms = self._terms([text for text, _ in pairs])
        found: list[list[dict[str, float]]] = [[{} for _ in each] for each in terms]
        owned = [(query, encoded(name)) for query, (_, ids) in enumerate(pairs) for name in ids if sendable(name)]
        given = {"owners": [query for query, _ in owned], "ids": [name for _, name in owned]}
        for query, place, name, score in self._asked(_OF_IDS, terms, **given):
            found[query][place][decoded(name)] = score
        return found  # type: ignore[return-value]

    def _terms(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Return how often each text has each of its words."""
        return [dict(Counter(map(stored_term, words))) for words in self._analyser.tokenize(texts)]

    def _asked(self, text: str, terms: Sequence[Mapping[str, int]], **given: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query about words, of some texts by their places."""
        rows = [(query, place, term, times) for query, each in enumerate(terms) for place, (term, times) in enumerate(each.items())]
        if not rows:
            return []
        have, among, nodes, length = _HAVE, "", self.corpus.nodes, self.corpus.length
        if self._ids is not None:
            if self._members is None:
                self._members = members_of(self.corpus, self._ids)
            have, among = _HAVE_OF_SCOPE, " AND w.node = ANY(%(members)s)"
            nodes, length = len(self._members), sum(length for _, length in self._members)
            given["members"] = [node for node, _ in self._members]
        queries, places, words, times = map(list, zip(*rows, strict=True))
        asked = {"queries": queries, "places": places, "terms": words, "times": times}
        settings = self.corpus.settings
        # As in memory, where a mean of 0 has no meaning.
        told = {"nodes": nodes, "mean": max(length / max(nodes, 1), 1e-9), "k1": settings["k1"], "b": settings["b"]}
        text = text.replace("@have@", have).replace("@among@", among)
        (found,) = self.corpus.read((text, {**asked, **told, **given}))
        return found


def stored_term(term: str) -> str:
    """Return a term as a row has it: of a very long one, such as a line of a picture, the beginning and a digest."""
    found = encoded(term)
    if len(found) * 4 <= _LONGEST or len(found.encode()) <= _LONGEST:
        return found
    return f"{found[:50]} {blake2b(found.encode(), digest_size=16).hexdigest()}"
