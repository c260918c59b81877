"""The sentences of the texts of an index in PostgreSQL, and the names in them, for LinearRAG."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.plain import check_text
from graph_retrievers.signals.dense import ROUNDING
from graph_retrievers.signals.entities import CapitalizedNames, EntityExtractor, as_entity_extractor, entity_key, found_names
from graph_retrievers.signals.named_sentences import PassageNames, passage_names
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.signals.vectors import check_vectors, unit_vectors
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable, sendable_texts, vector_rows, vector_text
from graph_retrievers.stores.remote.ports import StoredSentence

__all__ = ["PostgresSentences"]

# Nodes whose texts are read at a time.
_BLOCK = 1000
# Of how many passages of a name the number is known, as a part of what a question reads of a frequent name.
_MOST = 1000
_KNOWN = "a.corpus = %(corpus)s AND left(a.key, 500) = left(q.key, 500) AND a.key = q.key"
# A vector of zeros has the cosine 0.
_DISTANCE = "coalesce(nullif({}.vector <=> q.vector, 'NaN'), 1)"
_IS_THERE = " AND EXISTS (SELECT FROM {mentions} m WHERE m.corpus = a.corpus AND m.name = a.name@among@)"
_NUMBERS = (
    f"SELECT q.place, a.name FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS q (key, place) JOIN {{names}} a ON {_KNOWN}@there@"
)
_NAMES = "SELECT FROM {names} a WHERE a.corpus = %(corpus)s"
# Of names whose cosines differ by rounding alone, the one that the first passage has.
_NEAREST = f"""\
SELECT q.place, b.name, 1 - b.distance FROM unnest(%(vectors)s::text[]::vector[]) WITH ORDINALITY AS q (vector, place)
CROSS JOIN LATERAL (
    SELECT d.name, d.distance FROM (
        SELECT c.name, c.distance, min(c.distance) OVER () AS least FROM (
            SELECT a.name, {_DISTANCE.format("a")} AS distance FROM {{names}} a WHERE a.corpus = %(corpus)s@there@ OFFSET 0
        ) c
    ) d
    WHERE d.distance <= d.least + {ROUNDING}
    ORDER BY (
        SELECT min(n.position) FROM {{mentions}} m JOIN {{nodes}} n ON n.corpus = m.corpus AND n.node = m.node
        WHERE m.corpus = %(corpus)s AND m.name = d.name@among@
    ), d.name LIMIT 1
) b"""
_SENTENCES = f"""\
SELECT p.place, n.position, n.node, s.sentence, s.names, 1 - {_DISTANCE.format("s")}
FROM (
    SELECT place, array_agg(name) AS names FROM unnest(%(places)s::integer[], %(names)s::integer[]) AS g (place, name)
    GROUP BY place
) p
JOIN unnest(%(vectors)s::text[]::vector[]) WITH ORDINALITY AS q (vector, place) ON q.place = p.place
CROSS JOIN LATERAL (
    SELECT DISTINCT m.node FROM {{mentions}} m WHERE m.corpus = %(corpus)s AND m.name = ANY(p.names)@among@
) m
JOIN {{sentences}} s ON s.corpus = %(corpus)s AND s.node = m.node AND s.names && p.names
JOIN {{nodes}} n ON n.corpus = %(corpus)s AND n.node = m.node
ORDER BY p.place, n.position, s.sentence"""
# Numbers are sent as bytes, four for each, which numpy reads in a fraction of the time of rows.
_CONTENTS = f"""\
SELECT n.position, n.node, string_agg(int4send(m.name) || int4send((
    SELECT count(*)::integer FROM (SELECT FROM {{mentions}} o WHERE o.corpus = m.corpus AND o.name = m.name LIMIT {_MOST}) o
)), ''::bytea ORDER BY m.name)
FROM {{nodes}} n JOIN {{mentions}} m ON m.corpus = n.corpus AND m.node = n.node@among@
WHERE n.corpus = %(corpus)s AND @chosen@ GROUP BY n.position, n.node"""
_CONTAINERS = """\
SELECT m.name, string_agg(int4send(n.position) || int4send(n.node) || int4send(m.count), ''::bytea ORDER BY n.position)
FROM {mentions} m JOIN {nodes} n ON n.corpus = m.corpus AND n.node = m.node
WHERE m.corpus = %(corpus)s AND m.name = ANY(%(names)s)@among@ GROUP BY m.name"""
_SPELLINGS = "SELECT a.name, a.spelling FROM {names} a WHERE a.corpus = %(corpus)s AND a.name = ANY(%(names)s)"
_TYPED = "SELECT t.node FROM {nodes} t WHERE t.corpus = %(corpus)s AND t.type = ANY(%(types)s)"


class SentenceReader(NamedTuple):
    """What finds the names in texts, and what makes the vectors of n names or sentences: float32, shape [n, d]."""

    extractor: EntityExtractor
    embed: Callable[[list[str]], np.ndarray]

    @classmethod
    def of(cls, sentences: Any, embed: Callable[[list[str]], np.ndarray]) -> SentenceReader:
        """Return the reader that ``sentences=`` asks for: True for names by capitals, or what finds them."""
        return cls(as_entity_extractor(None if sentences is True else sentences, "sentences"), embed)

    @property
    def way(self) -> str:
        """What finds the names, as it is stored."""
        return "capitals" if isinstance(self.extractor, CapitalizedNames) else "an extractor"


class PostgresSentences:
    """The sentences of the texts of an index in PostgreSQL, and the names in them, as a SentenceStore.

    Parameters
    ----------
    corpus : PostgresCorpus
        Of an index that was written with ``sentences=True``.

    Raises
    ------
    InvalidArgumentError
        If there are no sentences.
    DatabaseError
        From the methods: if the database fails or does not answer in time, or if the index was changed since `corpus` was made.

    Examples
    --------
    >>> from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase
    >>> corpus = PostgresCorpus(PostgresDatabase("postgresql://localhost/works"), "machines")  # doctest: +SKIP
    >>> PostgresSentences(corpus).numbers(["ada lovelace"], ())  # doctest: +SKIP
    {'ada lovelace': 7}
    """

    keeps_time_limits = True

    def __init__(self, corpus: PostgresCorpus) -> None:
        if not corpus.sentences:
            raise InvalidArgumentError(f"{corpus!r} has no sentences; write the index with sentences=True.")
        self.corpus = corpus
        self._ids: Sequence[str] | None = None
        # The nodes of a scope, and the place of each among its ids.
        self._places: dict[int, int] = {}

    def __repr__(self) -> str:
        """Return the corpus."""
        return f"PostgresSentences({self.corpus!r})"

    def within(self, ids: Sequence[str]) -> Self:
        """Return the store of the passages of some ids, for a ``scope``; its first question takes one round trip more."""
        store = copy(self)
        store._ids, store._places = ids, {}
        return store

    def numbers(self, keys: Sequence[str], types: Collection[str]) -> tuple[dict[str, int], bool]:
        """Return the names of some keys, of those that there are, and whether there are any names."""
        keys, there = [key for key in keys if sendable(key)], self._there(types)
        parameters = {**self._parameters(types), "keys": list(map(encoded, keys))}
        rows, ((has_names,),) = self.corpus.read(
            (_NUMBERS.replace("@there@", there), parameters), (f"SELECT EXISTS ({_NAMES}{there})", parameters)
        )
        return {keys[place - 1]: name for place, name in rows}, has_names

    def nearest(self, vectors: np.ndarray, types: Collection[str]) -> list[tuple[int, float]]:
        """Return for each vector the nearest name and its cosine; see SentenceStore. All names are compared."""
        texts = [vector_text(vector) for vector in vectors]
        rows = self._read(_NEAREST.replace("@there@", self._there(types)), types, vectors=texts)
        nearest = {place: (name, cosine) for place, name, cosine in rows}
        return [nearest.get(place, (-1, 0.0)) for place in range(1, len(vectors) + 1)]

    def sentences(self, requests: Sequence[tuple[np.ndarray, Sequence[int]]], types: Collection[str]) -> list[list[StoredSentence]]:
        """Return for each vector and some names the sentences that mention one of these, in the order of their passages."""
        rows = self._read(
            _SENTENCES,
            types,
            vectors=[vector_text(vector) for vector, _ in requests],
            places=[place for place, (_, names) in enumerate(requests, 1) for _ in names],
            names=[name for _, names in requests for name in names],
        )
        results: list[list[StoredSentence]] = [[] for _ in requests]
        for place, position, node, sentence, names, cosine in rows:
            results[place - 1].append(StoredSentence(sentence, self._place(position, node), names, cosine))
        return results

    def mentions(
        self, passages: Sequence[int], names: Sequence[int], types: Collection[str]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Return the names in passages, and the passages of names; see SentenceStore."""
        among = self._among(types)
        column, chosen = "n.position", list(passages)
        if self._ids is not None:
            nodes = list(self._places)
            column, chosen = "n.node", [nodes[place] for place in passages]
        parameters = {**self._parameters(types), "names": list(names), "chosen": chosen}
        contents, containers = self.corpus.read(
            (_CONTENTS.replace("@among@", among).replace("@chosen@", f"{column} = ANY(%(chosen)s)"), parameters),
            (_CONTAINERS.replace("@among@", among), parameters),
        )
        names_by_passage = {self._place(position, node): _numbers(data, 2) for position, node, data in contents}
        passages_by_name = dict[int, np.ndarray]()
        for name, data in containers:
            positions, own, counts = _numbers(data, 3).T
            if self._ids is not None:
                positions = np.array([self._places[node] for node in own.tolist()])
            passages_by_name[name] = np.stack([positions, counts], 1)
        return names_by_passage, passages_by_name

    def spellings(self, names: Sequence[int]) -> Mapping[int, str]:
        """Return the names by their numbers; see SentenceStore."""
        (rows,) = self.corpus.read((_SPELLINGS, {"names": list(names)}))
        return {name: decoded(spelling) for name, spelling in rows}

    def _read(self, text: str, types: Collection[str], **parameters: Any) -> list[tuple[Any, ...]]:
        text = text.replace("@among@", self._among(types))
        (rows,) = self.corpus.read((text, {**self._parameters(types), **parameters}))
        return rows

    def _there(self, types: Collection[str]) -> str:
        """Return the condition that a name is in a passage of some types, in a scope in one of it; "" if all names are."""
        among = self._among(types)
        return _IS_THERE.replace("@among@", among) if among else ""

    def _among(self, types: Collection[str]) -> str:
        """Return the condition that a mention m is one of a passage of some types, in a scope of it."""
        self._read_scope()
        members = " AND m.node = ANY(%(members)s)" if self._ids is not None else ""
        return members + (f" AND m.node IN ({_TYPED})" if types else "")

    def _parameters(self, types: Collection[str]) -> dict[str, Any]:
        return {"types": sendable_texts(types), "members": list(self._places)}

    def _read_scope(self) -> None:
        """Read the nodes of the scope, once."""
        if self._ids and not self._places:
            text = "SELECT n.node, q.place FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS q (id, place) "
            text += "JOIN {nodes} n ON n.corpus = %(corpus)s AND n.id = q.id ORDER BY q.place"
            (rows,) = self.corpus.read((text, {"ids": sendable_texts(self._ids)}))
            self._places = {node: place - 1 for node, place in rows}

    def _place(self, position: int, node: int) -> int:
        return position if self._ids is None else self._places[node]


def embed_texts(model: Any, texts: list[str]) -> np.ndarray:
    """Return the vectors of names or sentences: float32, shape [n, d], of unit length."""
    vectors = unit_vectors(check_vectors(embed_corpus(model, texts), len(texts)))
    return vectors.cpu().numpy().astype(np.float32)  # type: ignore[no-any-return]


def check_finder(stored: str, reader: SentenceReader, where: str) -> None:
    """Raise InvalidArgumentError if new texts would be read in another way than those that are there."""
    if stored != reader.way:
        raise InvalidArgumentError(
            f"{where} has names that an extractor of yours found, and new texts would be read by capitals; pass the extractor as "
            "sentences= to update_index or write_index, or sentences=True to find all names anew by capitals."
        )


def _numbers(data: bytes, width: int) -> np.ndarray:
    """Return rows of numbers that the server sends as bytes: int64, shape [n, width]."""
    return np.frombuffer(data, ">i4").reshape(-1, width).astype(np.int64)


def write_sentences(writing: Writing, corpus: int, reader: SentenceReader, everywhere: bool) -> int:
    """Write the names and sentences of the nodes that this change has written, or with `everywhere` of all.

    Returns how many sentences were written. Those of nodes that are not there any more were deleted with these.
    """
    writing.run(
        "DELETE FROM {names} a WHERE a.corpus = %(corpus)s AND a.name IN (SELECT name FROM changed_names) "
        "AND NOT EXISTS (SELECT FROM {mentions} m WHERE m.corpus = a.corpus AND m.name = a.name)",
        corpus=corpus,
    )
    for table in ("new_names", "new_sentences"):
        writing.run(f"CREATE TEMPORARY TABLE {table} (corpus integer, number integer, vector vector) ON COMMIT DROP")
    (numbers,) = writing.run(
        "SELECT (SELECT coalesce(max(name), -1) + 1 FROM {names} WHERE corpus = %(corpus)s), "
        "(SELECT coalesce(max(sentence), -1) + 1 FROM {sentences} WHERE corpus = %(corpus)s)",
        corpus=corpus,
    ).fetchall()
    next_name, next_sentence = numbers
    first, last = next_sentence, -1
    written = "" if everywhere else " JOIN affected f ON f.node = n.node AND f.written"
    while rows := writing.run(
        f"SELECT n.position, n.node, n.title, n.text FROM {{nodes}} n{written} WHERE n.corpus = %(corpus)s "
        "AND n.position > %(last)s ORDER BY n.position LIMIT %(most)s",
        corpus=corpus,
        last=last,
        most=_BLOCK,
    ).fetchall():
        last = rows[-1][0]
        parts = [(node, decoded(title), decoded(text)) for _, node, title, text in rows if text.strip()]
        name_lists = found_names(reader.extractor, [text for *_, text in parts])
        passages = [(node, passage_names(text, title, names)) for (node, title, text), names in zip(parts, name_lists, strict=True)]
        next_name, next_sentence = _write_passages(writing, corpus, reader, passages, next_name, next_sentence)
    return int(next_sentence - first)


def _write_passages(
    writing: Writing, corpus: int, reader: SentenceReader, passages: Sequence[tuple[int, PassageNames]], name: int, sentence: int
) -> tuple[int, int]:
    """Write the names and sentences of some nodes, which have the next numbers; return those after them."""
    spellings = dict[str, str]()
    for _, passage in passages:
        for spelling in passage.names:
            check_text(spelling, "a name of the extractor")
            spellings.setdefault(encoded(entity_key(spelling)), spelling)
    known = writing.run(
        f"SELECT a.key, a.name FROM unnest(%(keys)s::text[]) AS q (key) JOIN {{names}} a ON {_KNOWN}",
        corpus=corpus,
        keys=list(spellings),
    ).fetchall()
    number = dict(known)
    new = [key for key in spellings if key not in number]
    number.update(zip(new, range(name, name + len(new)), strict=True))
    new_numbers = [number[key] for key in new]
    _stage(writing, "new_names", corpus, new_numbers, reader.embed([spellings[key] for key in new]) if new else None)
    writing.run(
        "INSERT INTO {names} SELECT %(corpus)s, g.number, g.key, g.spelling, n.vector "
        "FROM unnest(%(numbers)s::integer[], %(keys)s::text[], %(spellings)s::text[]) AS g (number, key, spelling) "
        "JOIN new_names n ON n.number = g.number",
        corpus=corpus,
        numbers=new_numbers,
        keys=new,
        spellings=[encoded(spellings[key]) for key in new],
    )
    texts, nodes, mentions, contents = list[str](), list[int](), list[str](), list[tuple[int, int, int, int]]()
    for node, passage in passages:
        names = [number[encoded(entity_key(spelling))] for spelling in passage.names]
        contents += [(corpus, node, *pair) for pair in zip(names, passage.counts, strict=True)]
        for text, places in passage.sentences:
            texts.append(text)
            nodes.append(node)
            # An array of arrays has to be rectangular, so that each is sent as a text.
            mentions.append(" ".join(str(names[place]) for place in places))
    writing.copy("{mentions} (corpus, node, name, count)", iter(contents))
    numbers = list(range(sentence, sentence + len(texts)))
    _stage(writing, "new_sentences", corpus, numbers, reader.embed(texts) if texts else None)
    writing.run(
        "INSERT INTO {sentences} SELECT %(corpus)s, g.node, g.number, string_to_array(g.names, ' ')::integer[], n.vector "
        "FROM unnest(%(nodes)s::integer[], %(numbers)s::integer[], %(names)s::text[]) AS g (node, number, names) "
        "JOIN new_sentences n ON n.number = g.number",
        corpus=corpus,
        nodes=nodes,
        numbers=numbers,
        names=mentions,
    )
    return name + len(new), sentence + len(texts)


def _stage(writing: Writing, table: str, corpus: int, numbers: Sequence[int], vectors: np.ndarray | None) -> None:
    """Put vectors into a temporary table in place of those before, in the binary form of COPY."""
    writing.run(f"TRUNCATE {table}")
    if vectors is not None:
        writing.copy_blocks(table, vector_rows(corpus, vectors, np.array(numbers, np.int64)), "binary")
