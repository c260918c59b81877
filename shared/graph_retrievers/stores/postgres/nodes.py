"""Nodes with their words and vectors as rows of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.addresses import node_source, page_address
from graph_retrievers.graph.blank import BLANK, blank_kind
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import LONGEST_NAME, NAMED_BY_TEXTS, name_words
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.values import date_fields, encoded, filter_fields, vector_rows
from graph_retrievers.stores.postgres.words import stored_term
from graph_retrievers.stores.remote.pages import name_key
from graph_retrievers.systems.traits import is_place

# Most bytes of an id: an entry of an index of PostgreSQL has at most about 2,700.
_LONGEST = 2600
BLOCK = 5000
"""Nodes that are written at a time."""

_COLUMNS = (
    "corpus, node, position, length, digest, id, title, type, text, metadata, origin, title_key, name_key, fields, dates, source, "
    "page, is_place, silence, is_name, is_lower, name_words"
)


class CountedWords:
    """The words of texts as BM25 counts them, those of each text together."""

    def __init__(self, bm25: BM25) -> None:
        tensors, settings = bm25.state()
        self.settings = bm25.settings
        vocabulary = np.array([stored_term(term) for term in settings["vocabulary"]], object)
        self.terms = np.empty(len(vocabulary), object)
        self.terms[list(settings["vocabulary"].values())] = vocabulary
        self.lengths = tensors["lengths"].cpu().numpy()
        owners = tensors["rows"].cpu().numpy()
        order = np.argsort(owners, kind="stable")
        numbers = np.repeat(np.arange(len(self.terms)), np.diff(tensors["indptr"].cpu().numpy()))
        self.numbers, self.counts = numbers[order], tensors["counts"].cpu().numpy()[order]
        self.ends = np.searchsorted(owners[order], np.arange(len(bm25) + 1))

    def of(self, row: int) -> tuple[list[str], list[int]]:
        """Return the distinct words of a text, and how often it has each."""
        part = slice(self.ends[row], self.ends[row + 1])
        return self.terms[self.numbers[part]].tolist(), self.counts[part].tolist()


class NodeBlock:
    """Some nodes of a graph, with their words and vectors.

    `rows` are their n rows in the graph, `words` has the words of all rows of the graph, and `vectors`, shape [n, d], the vectors
    of these nodes: zeros for a node without one, and None if the index has none.
    """

    def __init__(self, graph: CorpusGraph, rows: Sequence[int], words: CountedWords, vectors: np.ndarray | None) -> None:
        self.graph, self.rows, self.words, self.vectors = graph, rows, words, vectors
        self.ids = [encoded(graph.ids[row]) for row in rows]
        self.sources = [encoded(node_source(graph.ids[row], graph.metadata[row], graph.origins[row])) for row in rows]
        self._settings = json.dumps(words.settings)

    def digest(self, place: int) -> bytes:
        """Return a digest of a node with its words and its vector, without what other nodes determine."""
        node = self.graph.node(self.rows[place])
        content = [self._settings, node.id, node.title, node.text, node.type, node.metadata, node.origin]
        digest = blake2b(json.dumps(content).encode(), digest_size=16)
        # The words are part of it, as they may be those of another text than the node's.
        digest.update(json.dumps(sorted(zip(*self.words.of(self.rows[place]), strict=True))).encode())
        digest.update(b"" if self.vectors is None else self.vectors[place].astype("<f4").tobytes())
        return digest.digest()

    def columns(self, place: int) -> tuple[Any, ...]:
        """Return the columns of a node that it determines itself, from ``id`` on."""
        node = self.graph.node(self.rows[place])
        texts = (node.id, node.title, node.type, node.text)
        mappings = (json.dumps(node.metadata, ensure_ascii=False), json.dumps(node.origin, ensure_ascii=False))
        keys = (node.title.strip().casefold(), name_key(node.name))
        count = len(name_words(node.name))
        traits = (
            is_place(node.id, node.metadata),
            blank_kind(node.text, node.title, node.metadata, node.origin),
            not node.text and node.metadata.get(NAMED_BY_TEXTS) is True,
            count > 0 and node.name.islower(),
            count if count <= LONGEST_NAME else 0,
        )
        addresses = (self.sources[place], encoded(page_address(node.metadata)))
        fields = (filter_fields(node.metadata), date_fields(node.metadata))
        return (*map(encoded, texts), *mappings, *map(encoded, keys), *fields, *addresses, *traits)


def check_ids(graph: CorpusGraph) -> None:
    """Raise InvalidArgumentError if an id is too long for an index of a table."""
    for name in graph.ids:
        if (size := len(encoded(name).encode())) > _LONGEST:
            raise InvalidArgumentError(
                f"The id {shown(name)} has {size:,} bytes; the index of a database takes at most {_LONGEST:,}: shorten it."
            )


def copy_nodes(
    writing: Writing,
    corpus: int,
    block: NodeBlock,
    places: Sequence[int],
    numbers: Sequence[int],
    positions: Sequence[int],
    digests: Sequence[bytes],
) -> None:
    """Write nodes that are not there, by their places in a block, with their words and vectors.

    `numbers`, `positions` and `digests` are those of all nodes of the block. The words are added to ``changed_terms`` too.
    """

    def nodes() -> Iterator[Sequence[Any]]:
        for place in places:
            length = int(block.words.lengths[block.rows[place]])
            yield (corpus, numbers[place], positions[place], length, digests[place], *block.columns(place))

    writing.copy(f"{{nodes}} ({_COLUMNS})", nodes())
    writing.copy_blocks("{words} (corpus, node, term, posting)", iter([_word_lines(corpus, block, places, numbers)]))
    parts = [block.words.numbers[block.words.ends[row] : block.words.ends[row + 1]] for row in map(block.rows.__getitem__, places)]
    term_numbers, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]), return_counts=True)
    writing.copy("changed_terms (term, nodes)", zip(block.words.terms[term_numbers].tolist(), counts.tolist(), strict=True))
    if block.vectors is not None:
        vector_places = [place for place in places if block.vectors[place].any()]
        lines = vector_rows(corpus, block.vectors[vector_places], np.array([numbers[place] for place in vector_places], np.int64))
        writing.copy_blocks("{vectors} (corpus, node, vector)", lines, "binary")


def _word_lines(corpus: int, block: NodeBlock, places: Sequence[int], numbers: Sequence[int]) -> bytes:
    lines = []
    for place in places:
        row, node = block.rows[place], numbers[place]
        length = int(block.words.lengths[row])
        # COPY reads the last column as 12 bytes.
        lines += [
            f"{corpus}\t{node}\t{_escaped(term)}\t\\\\x{node:08x}{count:08x}{length:08x}\n"
            for term, count in zip(*block.words.of(row), strict=True)
        ]
    return "".join(lines).encode()


def _escaped(text: str) -> str:
    """Return a text as COPY reads it."""
    if text.isalnum():
        return text
    for character, code in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, code)
    return text


def delete_rows(writing: Writing, corpus: int, nodes: Sequence[int]) -> None:
    """Delete nodes with their words, vectors, sentences and names, but not their edges.

    The words are taken from ``changed_terms`` too; ``changed_names`` gets the names, which other nodes may have.
    """
    parameters: dict[str, Any] = {"corpus": corpus, "nodes": list(nodes)}
    writing.run(
        "WITH old AS (DELETE FROM {words} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s) RETURNING term) "
        "INSERT INTO changed_terms (term, nodes) SELECT term, -count(*) FROM old GROUP BY term",
        **parameters,
    )
    writing.run(
        "WITH old AS (DELETE FROM {mentions} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s) RETURNING name) "
        "INSERT INTO changed_names (name) SELECT DISTINCT name FROM old",
        **parameters,
    )
    for table in ("sentences", "vectors", "nodes"):
        writing.run(f"DELETE FROM {{{table}}} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s)", **parameters)


def mark_blank(writing: Writing, corpus: int) -> None:
    """Bring up to date the field that marks nodes with nothing to read, see :mod:`graph_retrievers.graph.blank`."""
    # A page without text is marked if it has the title of one with a text, which says what the title is about.
    rows = writing.run(
        "WITH read AS (SELECT DISTINCT type FROM {nodes} WHERE corpus = %(corpus)s AND silence = 0), "
        "found AS (SELECT n.node, n.fields ? %(blank)s AS is_marked, n.silence > 1 AND n.type IN (SELECT type FROM read) AND ("
        "n.silence = 2 OR EXISTS (SELECT FROM {nodes} o WHERE o.corpus = n.corpus "
        "AND left(o.title_key, 500) = left(n.title_key, 500) AND o.title = n.title AND o.type = n.type AND o.silence = 0)) "
        "AS blank "
        "FROM {nodes} n WHERE n.corpus = %(corpus)s AND (n.silence > 1 OR n.fields ? %(blank)s)) "
        "SELECT n.node, f.blank, n.metadata FROM found f JOIN {nodes} n ON n.corpus = %(corpus)s AND n.node = f.node "
        "WHERE f.is_marked <> f.blank",
        corpus=corpus,
        blank=BLANK,
    ).fetchall()
    for node, blank, metadata in rows:
        new_metadata = {name: value for name, value in metadata.items() if name != BLANK} | ({BLANK: True} if blank else {})
        writing.run(
            "UPDATE {nodes} SET metadata = %(metadata)s, fields = %(fields)s WHERE corpus = %(corpus)s AND node = %(node)s",
            corpus=corpus,
            node=node,
            metadata=json.dumps(new_metadata, ensure_ascii=False),
            fields=filter_fields(new_metadata),
        )
