"""The words of an index in PostgreSQL, searched by BM25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable_texts
from graph_retrievers.stores.postgres.vectors import members_of

__all__ = ["PostgresWords"]

# Most bytes of a term: an entry of an index has at most about 2,700.
_LONGEST = 500
# The number of texts that have a term; in a scope, among its nodes.
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
# Looking up the terms of a node takes as long as reading this many rows; and bounds are this much larger to allow for rounding.
_ROWS, _SLACK = 60, 1.000001
# The terms with their idf, and what is found of nodes, each as five numbers: the place of the node, that of the term among those of
# its query, from 1, and the posting. They are grouped by terms where they are read, which takes less time. OFFSET 0 lets the server
# look up the terms of a query in one place of the index for each node.
_LOOKUP = f"""{_TERMS}, terms_of AS MATERIALIZED (
    SELECT query, array_agg(term COLLATE "C" ORDER BY place) AS terms FROM asked GROUP BY query
)
SELECT query, place, idf, NULL::bytea FROM asked UNION ALL
SELECT NULL, NULL, NULL, string_agg(int4send(n.place::integer) || int4send(w.number) || w.posting, ''::bytea)
FROM @nodes@ JOIN terms_of t ON t.query = n.query CROSS JOIN LATERAL (
    SELECT array_position(t.terms, w.term) AS number, w.posting FROM {{words}} w
    WHERE w.corpus = %(corpus)s AND w.node = n.node AND w.term = ANY(t.terms)@among@ OFFSET 0
) w"""
_OF_NODES = _LOOKUP.replace(
    "@nodes@", "unnest(%(owners)s::integer[], %(looked_up)s::integer[]) WITH ORDINALITY AS n (query, node, place)"
)
_OF_IDS = _LOOKUP.replace(
    "@nodes@",
    """(
    SELECT i.query, i.place, n.node
    FROM unnest(%(owners)s::integer[], %(looked_up)s::text[]) WITH ORDINALITY AS i (query, id, place)
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


class _Weights(NamedTuple):
    """The weights of a term of a query in nodes: `nodes`, ascending, and `weights`, shape [n], int64 and float32."""

    query: int
    place: int
    nodes: np.ndarray
    weights: np.ndarray


class _Scored:
    """The scores of nodes that may be among the k best, by the terms of a query that were read, and the terms that were not.

    `nodes`, shape [n], int64, ascending, and `scores`, shape [n], float64, of which `least` is the k-th best, 0 if there are fewer;
    `common` has the terms that were not read, by their places, with the number of their nodes and the most that each adds to a
    score.
    """

    def __init__(self, times: Sequence[int], k: int) -> None:
        self.times, self.k = times, k
        self.nodes, self.scores, self.least = np.zeros(0, np.int64), np.zeros(0), 0.0
        self.common: dict[int, tuple[float, float]] = {}

    def add(self, terms: Iterable[_Weights]) -> None:
        """Add the weights of terms; nodes that cannot be among the k best any more are left out."""
        # The rarest terms come first, which give the best nodes most of their scores: most nodes of the other terms are left out.
        parts = sorted(terms, key=lambda term: len(term.nodes))
        for term in parts:
            self.common.pop(term.place, None)
        common = sum(most for _, most in self.common.values())
        most = [self.times[term.place] * float(term.weights.max(initial=0.0)) for term in parts]
        for number, term in enumerate(parts):
            rest = common + sum(most[number + 1 :])
            self._keep(most[number] + rest)
            if len(term.nodes):
                self._add(term.nodes, self.times[term.place] * term.weights.astype(np.float64), rest)
        self._keep(common)

    def _keep(self, rest: float) -> None:
        """Keep the nodes that may be among the k best; `rest` is the most that terms that come later give a node."""
        mask = _SLACK * (self.scores + rest) >= self.least
        self.nodes, self.scores = self.nodes[mask], self.scores[mask]

    def _add(self, nodes: np.ndarray, weights: np.ndarray, rest: float) -> None:
        """Add the weights of a term to the scores; `rest` is as for :meth:`_keep`."""
        places = np.minimum(np.searchsorted(nodes, self.nodes), len(nodes) - 1)
        mask = nodes[places] == self.nodes
        self.scores[mask] += weights[places[mask]]
        is_new = _SLACK * (weights + rest) >= self.least
        is_new[places[mask]] = False
        if is_new.any():
            merged = np.concatenate([self.nodes, nodes[is_new]])
            order = np.argsort(merged, kind="stable")
            self.nodes, self.scores = merged[order], np.concatenate([self.scores, weights[is_new]])[order]
        if len(self.scores) >= self.k:
            self.least = float(np.partition(self.scores, -self.k)[-self.k])

    def next_terms(self) -> list[int]:
        """Return the places of the terms to read next, for the k best; none if the others are better looked up for some nodes.

        Nodes without any of the terms that were read score at most the sum of the others' parts. Terms are read until the k best
        score more, and until to read one takes longer than to look up all for the nodes that may be among the k best.
        """
        places = sorted(self.common, key=lambda place: (self.common[place], place))
        (indices,) = np.nonzero(_SLACK * np.cumsum([self.common[place][1] for place in places[::-1]])[::-1] >= self.least)
        if places and not len(indices) and _ROWS * len(self.nodes) > self.common[places[0]][0]:
            return places[:1]
        return places[: len(indices)]

    def best(self) -> tuple[list[int], list[float]]:
        """Return the nodes of the k best scores, in single precision, with those that are equal to the last."""
        scores = self.scores.astype(np.float32)
        mask = scores >= np.float32(self.least)
        return self.nodes[mask].tolist(), scores[mask].tolist()


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
        store = copy(self)
        store._ids, store._members = ids, None
        return store

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the k best matches of each text, best first, mostly in two to five round trips.

        It takes one more for each word of a text that nearly all nodes have, as long as that may leave out nodes, and the first
        search of a scope one more.
        """
        terms = self._terms(texts)
        places, searches = _places(terms), [_Scored(list(counts.values()), k) for counts in terms]
        self._read(searches, _RARE, places, k=k, few=_FEW)
        while any(next_places := [search.next_terms() for search in searches]):
            self._read(searches, "true", [place for place in places if place[1] in next_places[place[0]]])
        rest = [place for place in places if place[1] in searches[place[0]].common]
        node_lists = [search.nodes if search.common else search.nodes[:0] for search in searches]
        nodes = np.concatenate([np.zeros(0, np.int64), *node_lists])
        owners = np.repeat(np.arange(len(node_lists)), list(map(len, node_lists)))
        looked_up = self._looked_up(_OF_NODES, rest, owners.tolist(), nodes.tolist())
        for query, weights in groupby(looked_up, key=attrgetter("query")):
            searches[query].add(part._replace(nodes=nodes[part.nodes]) for part in weights)
        best = [search.best() for search in searches]
        parameters = {
            "owners": [query for query, (nodes, _) in enumerate(best) for _ in nodes],
            "rows": [node for nodes, _ in best for node in nodes],
            "scores": [score for _, scores in best for score in scores],
        }
        results: list[list[tuple[str, float]]] = [[] for _ in texts]
        if parameters["rows"]:
            (rows,) = self.corpus.read((_BEST, {**parameters, "k": k}))
            for query, name, score in rows:
                results[query].append((decoded(name), score))
        return results

    def _read(self, scored: Sequence[_Scored], condition: str, requests: Sequence[_Place], **parameters: Any) -> None:
        """Add the postings of those terms that fulfil a condition to the scores of their queries."""
        rows = self._query(_POSTINGS.replace("@read@", condition), requests, **parameters)
        for query, terms in groupby(rows, key=itemgetter(0)):
            weights = []
            for _, place, count, idf, is_read, postings in terms:
                if is_read:
                    table = _numbers(postings, 3)
                    # Most are in the order in which nodes were written, which is that of their numbers.
                    if (table[1:, 0] < table[:-1, 0]).any():
                        table = table[np.argsort(table[:, 0])]
                    weights.append(_Weights(query, place, table[:, 0].astype(np.int64), self._weighed(idf, table)))
                else:
                    scored[query].common[place] = count, scored[query].times[place] * idf
            scored[query].add(weights)

    def _looked_up(self, text: str, requests: Sequence[_Place], owners: list[int], looked_up: list[Any]) -> list[_Weights]:
        """Return the weights of terms in some nodes, each for its query; `nodes` of a result are places in `looked_up`."""
        if not requests or not looked_up:
            return []
        rows = self._query(text, requests, owners=owners, looked_up=looked_up)
        table = _numbers(next(postings for query, *_, postings in rows if query is None), 5)
        table = table[np.argsort(table[:, 0], kind="stable")]
        nodes, numbers = table[:, 0].astype(np.int64) - 1, table[:, 1]
        queries, weights = np.array(owners)[nodes], list[_Weights]()
        for query, terms in groupby(sorted(row[:3] for row in rows if row[0] is not None), key=itemgetter(0)):
            for number, (_, place, idf) in enumerate(terms, 1):
                mask = (queries == query) & (numbers == number)
                weights.append(_Weights(query, place, nodes[mask], self._weighed(idf, table[mask, 2:])))
        return weights

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores by id of each distinct word of some texts, each text for its own ids."""
        terms = self._terms([text for text, _ in pairs])
        times = [list(counts.values()) for counts in terms]
        results: list[list[dict[str, float]]] = [[{} for _ in counts] for counts in terms]
        id_lists = [sendable_texts(ids) for _, ids in pairs]
        names, owners = [*chain.from_iterable(id_lists)], [query for query, ids in enumerate(id_lists) for _ in ids]
        for query, place, nodes, counts in self._looked_up(_OF_IDS, _places(terms), owners, names):
            weights = times[query][place] * counts.astype(np.float64)
            results[query][place] = dict(zip([decoded(names[node]) for node in nodes.tolist()], weights.tolist(), strict=True))
        return results  # type: ignore[return-value]

    def _terms(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Return how often each text has each of its words."""
        return [dict(Counter(map(stored_term, words))) for words in self._analyser.tokenize(texts)]

    def _query(self, text: str, requests: Sequence[_Place], **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about terms."""
        if not requests:
            return []
        have, condition, (nodes, _) = _HAVE, "", self._counts()
        if self._members is not None:
            have, condition = _HAVE_OF_SCOPE, " AND w.node = ANY(%(members)s)"
            parameters["members"] = [node for node, _ in self._members]
        queries, places, words = map(list, zip(*requests, strict=True))
        text = text.replace("@have@", have).replace("@among@", condition)
        statistics = {"queries": queries, "places": places, "terms": words, "nodes": nodes}
        (rows,) = self.corpus.read((text, {**statistics, **parameters}))
        return rows

    def _counts(self) -> tuple[int, int]:
        """Return the number of nodes, and the number of words in all of them."""
        if self._ids is None:
            return self.corpus.nodes, self.corpus.length
        if self._members is None:
            self._members = members_of(self.corpus, self._ids)
        return len(self._members), sum(length for _, length in self._members)

    def _weighed(self, idf: float, postings: np.ndarray) -> np.ndarray:
        """Return the weights of a term from its postings, shape [n, 3]: float32, shape [n]."""
        (nodes, words), (k1, b) = self._counts(), (self.corpus.settings["k1"], self.corpus.settings["b"])
        # Texts without words have a mean of 0, which would be divided by; BM25 in memory has the same bound.
        mean = max(words / max(nodes, 1), 1e-9)
        _, count, length = postings.T
        return (idf * (count / (k1 * (1 - b + b * length / mean) + count))).astype(np.float32)  # type: ignore[no-any-return]


def _numbers(sent: bytes | None, width: int) -> np.ndarray:
    """Return numbers that were sent as their bytes: int32, shape [n, width]; none of no rows, which is None."""
    return np.frombuffer(sent or b"", ">i4").astype(np.int32).reshape(-1, width)


def _places(terms: Sequence[Mapping[str, int]]) -> list[_Place]:
    return [(query, place, term) for query, counts in enumerate(terms) for place, term in enumerate(counts)]


def stored_term(term: str) -> str:
    """Return a term as a row has it: for a very long one, such as an encoded picture, its beginning and a digest."""
    encoded_term = encoded(term)
    if len(encoded_term) * 4 <= _LONGEST or len(encoded_term.encode()) <= _LONGEST:
        return encoded_term
    return f"{encoded_term[:50]} {blake2b(encoded_term.encode(), digest_size=16).hexdigest()}"
