"""The words of an index in PostgreSQL, searched by BM25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.values import decoded, encoded, sent_texts
from graph_retrievers.stores.postgres.vectors import members_of

__all__ = ["PostgresWords"]

# Bytes of a term: an entry of an index has 2,700.
_LONGEST = 500
# The texts that have a term; in a scope, those of its nodes.
_HAVE = "t.nodes"
_HAVE_OF_SCOPE = "(SELECT count(*) FROM {words} o WHERE o.corpus = %(corpus)s AND o.term = t.term AND o.node = ANY(%(members)s))"
_TERMS = """\
WITH asked AS MATERIALIZED (
    SELECT a.query, a.place, a.term, h.nodes, ln(1 + (%(nodes)s - h.nodes + 0.5) / (h.nodes + 0.5))::real AS idf
    FROM unnest(%(queries)s::integer[], %(places)s::integer[], %(terms)s::text[]) AS a (query, place, term)
    JOIN {terms} t ON t.corpus = %(corpus)s AND t.term = a.term
    CROSS JOIN LATERAL (SELECT @have@::double precision AS nodes) h
)"""
# Rare are the terms of the first k rows, those of a few more, which are read at once, and those without which the sum of the other
# terms' idf would be more than this share of the idf of the term that the k-th row has: about what the k-th best scores.
_FEW, _SHARE = 20_000, 0.4
_RARE = f"""\
a.rows - a.nodes < %(k)s OR a.rows <= %(few)s
        OR a.others > {_SHARE} * max(a.idf) FILTER (WHERE a.rows >= %(k)s) OVER (PARTITION BY a.query)"""
_POSTINGS = f"""{_TERMS}, counted AS (
    SELECT a.*, sum(a.nodes) OVER rarest AS rows,
        sum(a.idf) OVER (rarest ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS others
    FROM asked a WINDOW rarest AS (PARTITION BY a.query ORDER BY a.nodes, a.place)
), placed AS (
    SELECT a.*, @read@ AS read FROM counted a
)
SELECT a.query, a.place, a.nodes, a.idf, a.read, w.postings FROM placed a CROSS JOIN LATERAL (
    SELECT string_agg(w.posting, ''::bytea) AS postings FROM {{words}} w
    WHERE a.read AND w.corpus = %(corpus)s AND w.term = a.term@among@
) w ORDER BY a.query, a.place"""
# To look up the terms of a node takes as long as to read so many rows; and bounds allow for rounding.
_ROWS, _SLACK = 30, 1.000001
# OFFSET 0 lets the server look up the terms of a query in one place of the index for each node.
_LOOKED_UP = f"""{_TERMS}, terms_of AS MATERIALIZED (
    SELECT query, array_agg(term COLLATE "C" ORDER BY place) AS terms, array_agg(place ORDER BY place) AS places,
        array_agg(idf ORDER BY place) AS idfs
    FROM asked GROUP BY query
)
SELECT t.query, t.places[w.at], 0, t.idfs[w.at], true, string_agg(@posting@, ''::bytea)
FROM @nodes@ JOIN terms_of t ON t.query = n.query CROSS JOIN LATERAL (
    SELECT array_position(t.terms, w.term) AS at, w.posting FROM {{words}} w
    WHERE w.corpus = %(corpus)s AND w.node = n.node AND w.term = ANY(t.terms)@among@ OFFSET 0
) w GROUP BY 1, 2, 4 ORDER BY 1, 2"""
_OF_NODES = _LOOKED_UP.replace("@posting@", "w.posting").replace(
    "@nodes@", "unnest(%(owners)s::integer[], %(rows)s::integer[]) AS n (query, node)"
)
# With the places of ids as the numbers of nodes.
_OF_IDS = _LOOKED_UP.replace("@posting@", "int4send(n.place::integer) || substring(w.posting, 5)").replace(
    "@nodes@",
    """(
    SELECT i.query, i.place, n.node FROM unnest(%(owners)s::integer[], %(ids)s::text[]) WITH ORDINALITY AS i (query, id, place)
    JOIN {nodes} n ON n.corpus = %(corpus)s AND n.id = i.id
) n""",
)
_BEST = """\
SELECT query, id, score FROM (
    SELECT s.query, n.id, s.score, row_number() OVER (PARTITION BY s.query ORDER BY s.score DESC, n.position) AS place
    FROM unnest(%(owners)s::integer[], %(rows)s::integer[], %(scores)s::real[]) AS s (query, node, score)
    JOIN {nodes} n ON n.corpus = %(corpus)s AND n.node = s.node
) f WHERE place <= %(k)s ORDER BY query, place"""


_Place = tuple[int, int, str]
"""A term of a query: the place of the query, that of the term among its terms, and the term."""


class _Term(NamedTuple):
    """What a statement returns of a term of a query.

    `query` and `place` are those of the term, and `having` the number of its nodes. If `is_read`, `nodes` and `weights`, shape [n],
    int64 and float32, are the nodes and the weight of the term in each.
    """

    query: int
    place: int
    having: float
    idf: float
    is_read: bool
    nodes: np.ndarray
    weights: np.ndarray


class _Scored:
    """The scores of nodes by the terms of a query that were read, and the terms that were not.

    `nodes`, shape [n], int64, ascending, and `scores`, shape [n], float64, of which `least` is the k-th best, 0 if there are fewer;
    `common` has the terms that were not read, by their places, with the number of their nodes and the most that each adds to a
    score.
    """

    def __init__(self, times: Sequence[int], k: int) -> None:
        self.times, self.k = times, k
        self.nodes, self.scores, self.least = np.zeros(0, np.int64), np.zeros(0), 0.0
        self.common: dict[int, tuple[float, float]] = {}

    def add(self, terms: Iterable[_Term]) -> None:
        """Add what was read of terms."""
        nodes, scores = [self.nodes], [self.scores]
        for term in terms:
            if not term.is_read:
                self.common[term.place] = term.having, self.times[term.place] * term.idf
                continue
            self.common.pop(term.place, None)
            nodes.append(term.nodes)
            scores.append(self.times[term.place] * term.weights.astype(np.float64))
        found, parts = np.concatenate(nodes), np.concatenate(scores)
        if len(found):
            # Each part is nearly in order, of which this sort makes use.
            order = np.argsort(found, kind="stable")
            found, parts = found[order], parts[order]
            first = np.flatnonzero(np.diff(found, prepend=-1))
            self.nodes, self.scores = found[first], np.add.reduceat(parts, first)
            if len(first) >= self.k:
                self.least = float(np.partition(self.scores, -self.k)[-self.k])

    def wanted(self) -> list[int]:
        """Return the places of the terms to read next, for the k best; none if the others are better looked up for some nodes.

        Nodes without any of the terms that were read score at most the sum of the others' parts. Terms are read until the k best
        score more, and until to read one takes longer than to look up all for the nodes that may be among the k best.
        """
        left = sorted(self.common, key=lambda place: (self.common[place], place))
        (short,) = np.nonzero(_SLACK * np.cumsum([self.common[place][1] for place in left[::-1]])[::-1] >= self.least)
        if left and not len(short) and _ROWS * np.count_nonzero(self._may_be_best()) > self.common[left[0]][0]:
            return left[:1]
        return left[: len(short)]

    def keep(self) -> None:
        """Keep the nodes that may be among the k best."""
        kept = self._may_be_best()
        self.nodes, self.scores = self.nodes[kept], self.scores[kept]

    def _may_be_best(self) -> np.ndarray:
        return self.scores + _SLACK * sum(most for _, most in self.common.values()) >= self.least  # type: ignore[no-any-return]

    def best(self) -> tuple[list[int], list[float]]:
        """Return the nodes of the k best scores, in single precision, with those that are equal to the last."""
        scores = self.scores.astype(np.float32)
        kept = scores >= np.float32(self.least)
        return self.nodes[kept].tolist(), scores[kept].tolist()


class PostgresWords:
    r"""The words of an index in PostgreSQL as a WordStore: BM25 with the scores in memory, up to rounding.

    A row has for each word of a node its count and the number of words of the text, so that the weight is computed with what is
    true of the corpus at the time: :math:`\mathrm{idf} \cdot f / (f + k_1 (1 - b + b L / \bar L))`, in the form of Lucene. In a
    scope, idf and mean length are those of its nodes. A search reads the rows of common words only where they can change its
    result. Texts are split as by :class:`~graph_retrievers.signals.bm25.BM25`.

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

    keeps_time_limits = True

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
        """Return the ids and scores of the k best matches of each text, best first, in two to five round trips.

        The first search of a scope takes one more.
        """
        terms = self._terms(texts)
        asked, scored = _places(terms), [_Scored(list(each.values()), k) for each in terms]
        self._add(scored, _POSTINGS.replace("@read@", _RARE), asked, k=k, few=_FEW)
        while any(wanted := [each.wanted() for each in scored]):
            self._add(scored, _POSTINGS.replace("@read@", "true"), [place for place in asked if place[1] in wanted[place[0]]])
        few = [query for query, each in enumerate(scored) if each.common]
        for query in few:
            scored[query].keep()
        owners = [query for query in few for _ in scored[query].nodes]
        nodes = [node for query in few for node in scored[query].nodes.tolist()]
        left = [place for place in asked if place[1] in scored[place[0]].common]
        self._add(scored, _OF_NODES, left, owners=owners, rows=nodes)
        best = [each.best() for each in scored]
        given = {
            "owners": [query for query, (nodes, _) in enumerate(best) for _ in nodes],
            "rows": [node for nodes, _ in best for node in nodes],
            "scores": [score for _, scores in best for score in scores],
        }
        found: list[list[tuple[str, float]]] = [[] for _ in texts]
        if given["rows"]:
            (rows,) = self.corpus.read((_BEST, {**given, "k": k}))
            for query, name, score in rows:
                found[query].append((decoded(name), score))
        return found

    def _add(self, scored: Sequence[_Scored], text: str, asked: Sequence[_Place], **given: Any) -> None:
        """Add what a statement reads of terms to the scores of their queries."""
        for query, terms in groupby(self._asked(text, asked, **given), key=attrgetter("query")):
            scored[query].add(terms)

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores by id of each distinct word of some texts, each text for its own ids."""
        terms = self._terms([text for text, _ in pairs])
        times = [list(each.values()) for each in terms]
        found: list[list[dict[str, float]]] = [[{} for _ in each] for each in terms]
        owned = [sent_texts(ids) for _, ids in pairs]
        asked = [*chain.from_iterable(owned)]
        given = {"owners": [query for query, ids in enumerate(owned) for _ in ids], "ids": asked}
        for term in self._asked(_OF_IDS, _places(terms), **given):
            weights = times[term.query][term.place] * term.weights.astype(np.float64)
            names = [decoded(asked[number - 1]) for number in term.nodes.tolist()]
            found[term.query][term.place] = dict(zip(names, weights.tolist(), strict=True))
        return found  # type: ignore[return-value]

    def _terms(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Return how often each text has each of its words."""
        return [dict(Counter(map(stored_term, words))) for words in self._analyser.tokenize(texts)]

    def _asked(self, text: str, asked: Sequence[_Place], **given: Any) -> list[_Term]:
        """Return what a statement reads of terms."""
        if not asked:
            return []
        have, among, nodes, length = _HAVE, "", self.corpus.nodes, self.corpus.length
        if self._ids is not None:
            if self._members is None:
                self._members = members_of(self.corpus, self._ids)
            have, among = _HAVE_OF_SCOPE, " AND w.node = ANY(%(members)s)"
            nodes, length = len(self._members), sum(length for _, length in self._members)
            given["members"] = [node for node, _ in self._members]
        queries, places, words = map(list, zip(*asked, strict=True))
        text = text.replace("@have@", have).replace("@among@", among)
        told = {"queries": queries, "places": places, "terms": words, "nodes": nodes}
        (found,) = self.corpus.read((text, {**told, **given}))
        # As in memory, where a mean of 0 has no meaning.
        mean = max(length / max(nodes, 1), 1e-9)
        return [_Term(*told, *self._weighed(told[3], postings or b"", mean)) for *told, postings in found]  # type: ignore[call-arg]

    def _weighed(self, idf: float, postings: bytes, mean: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes of a term, and its weight in each; `mean` is the mean length of texts."""
        k1, b = self.corpus.settings["k1"], self.corpus.settings["b"]
        node, count, length = np.frombuffer(postings, ">i4").reshape(-1, 3).T.astype(np.int64, order="C")
        return node, (idf * (count / (k1 * (1 - b + b * length / mean) + count))).astype(np.float32)


def _places(terms: Sequence[Mapping[str, int]]) -> list[_Place]:
    return [(query, place, term) for query, each in enumerate(terms) for place, term in enumerate(each)]


def stored_term(term: str) -> str:
    """Return a term as a row has it: of a very long one, such as a line of a picture, the beginning and a digest."""
    found = encoded(term)
    if len(found) * 4 <= _LONGEST or len(found.encode()) <= _LONGEST:
        return found
    return f"{found[:50]} {blake2b(found.encode(), digest_size=16).hexdigest()}"
