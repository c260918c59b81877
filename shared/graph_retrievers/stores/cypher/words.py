"""Words in the full-text index of a graph database."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any, Self

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.cypher.database import CypherDatabase, check_database
from graph_retrievers.stores.cypher.schema import quoted
from graph_retrievers.systems.traits import traits_of

__all__ = ["CypherWords"]

_LABEL = "graph_retrievers"
_KOREAN = re.compile("[\uac00-\ud7a3]+")
_SEARCH = """\
UNWIND $asked AS one
CALL db.index.fulltext.queryNodes($index, one.text{limit}) YIELD node, score
{among}RETURN one.place AS place, node.{id} AS id, score"""


class CypherWords:
    """The words of nodes in a full-text index of the graph's database (Lucene's BM25), as a WordStore.

    Texts are split into words by the database's analyser, and scored by its own form of BM25, so answers differ from those in
    memory where analysers differ; stop words are removed from questions as in memory. Scores of single nodes are those of whole
    texts, not of their terms, and every node with one of the words is read for them: for many words and large graphs,
    :class:`~graph_retrievers.stores.qdrant.QdrantWords` is faster, and returns the scores in memory.

    Parameters
    ----------
    database : CypherDatabase
        With a graph written by :func:`~graph_retrievers.stores.cypher.writer.write_graph`.
    index : str, optional
        Name of the full-text index on names and texts of the nodes; by default the one that :meth:`fill` creates.

    Examples
    --------
    >>> from graph_retrievers.stores.cypher import CypherDatabase
    >>> words = CypherWords(CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password")))  # doctest: +SKIP
    >>> words.fill(index)  # doctest: +SKIP
    >>> words.search(["Which loom?"], 2)  # doctest: +SKIP
    [[('loom', 0.59)]]
    """

    def __init__(self, database: CypherDatabase, index: str | None = None) -> None:
        check_database(database)
        self.database = database
        self.index = f"{database.schema.label} words" if index is None else index
        self._ids: list[str] | None = None
        # The database's analyser cuts texts into whole words.
        self._analyser = BM25([], language="", stopwords="en")

    def __repr__(self) -> str:
        """Return the database and the index."""
        return f"CypherWords({self.database!r}, index={self.index!r})"

    def fill(self, index: GraphIndex) -> None:
        """Create the full-text index, unless one with that name exists, and write the properties by which retrievers are chosen.

        Parameters
        ----------
        index : GraphIndex
            The index from which the graph was written, with BM25.

        Raises
        ------
        MissingDatabaseFeatureError
            If the database does not support Neo4j's statement. ArcadeDB creates such an index only by SQL over HTTP; the message
            has the statements, and the name to pass as `index`.
        """
        self.begin()
        self.finish(index)

    def begin(self) -> None:
        """Create the full-text index, and mark the words as being filled; see :meth:`fill`."""
        schema, names = self.database.schema, self.database.schema.names()
        if self.index == f"{schema.label} words":
            statement = "CREATE FULLTEXT INDEX {index} IF NOT EXISTS FOR (n:{label}) ON EACH [n.{name}, n.{text}]"
            sql = f"CREATE VERTEX TYPE `{schema.label}` IF NOT EXISTS; " + "; ".join(
                f"CREATE PROPERTY `{schema.label}`.`{field}` IF NOT EXISTS STRING" for field in (schema.name, schema.text)
            )
            self.database.create_index(
                statement.format(index=quoted(self.index), **names),
                "full-text",
                f"{sql}; CREATE INDEX IF NOT EXISTS ON `{schema.label}` (`{schema.name}`, `{schema.text}`) FULL_TEXT; and pass "
                f"index='{schema.label}[{schema.name},{schema.text}]'",
            )
        self._write_traits("")

    def finish(self, index: GraphIndex) -> None:
        """Write the properties by which retrievers are chosen; without them, the words count as incomplete."""
        self._write_traits(json.dumps(traits_of(index)))

    def _write_traits(self, traits: str) -> None:
        text = f"MERGE (t:{quoted(_LABEL)} {{`label`: $label}}) SET t.`traits` = $traits"
        self.database.write(text, label=self.database.schema.label, traits=traits)

    def traits(self) -> Mapping[str, Any]:
        """Return the properties of the index that :meth:`fill` wrote; InvalidArgumentError if there are none."""
        text = f"MATCH (t:{quoted(_LABEL)}) WHERE t.`label` = $label RETURN t.`traits` AS traits"
        rows = self.database.read(text, label=self.database.schema.label)
        if not rows or not rows[0]["traits"]:
            raise InvalidArgumentError(
                f"{self.database.uri} holds no words of {self.database.schema.label!r}, or they are being filled: fill them with "
                "CypherWords(database).fill(index)."
            )
        return json.loads(rows[0]["traits"])  # type: ignore[no-any-return]

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; the rarity of a word is that in the whole graph."""
        store = copy(self)
        store._ids = list(ids)
        return store

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the k best matches of each text, best first."""
        return [
            matches[:k]
            for matches in self._search_rows([(text, self._ids) for text in texts], None if self._ids is not None else k)
        ]

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores of some texts by id, each for its own ids: one mapping for each text."""
        return [[dict(matches)] for matches in self._search_rows([(text, list(ids)) for text, ids in pairs], None)]

    def _search_rows(self, requests: Sequence[tuple[str, list[str] | None]], k: int | None) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of searches, each among ids (of all by default), in one query."""
        texts = [text for text, _ in requests]
        # Korean is searched in pairs of letters, of which a word of two is one, and in whole words, as the database cuts it.
        words = [[*terms, *_KOREAN.findall(text)] for terms, text in zip(self._analyser.tokenize(texts), texts, strict=True)]
        rows = [
            {"place": place, "text": _query(terms), "ids": ids}
            for place, (terms, (_, ids)) in enumerate(zip(words, requests, strict=True))
            if terms
        ]
        results: list[list[tuple[str, float]]] = [[] for _ in requests]
        if rows:
            id_property = self.database.schema.names()["id"]
            condition = "" if rows[0]["ids"] is None else f"WITH one, node, score WHERE node.{id_property} IN one.ids\n"
            limit, parameters = ("", {}) if k is None else (", {limit: $limit}", {"limit": k})
            text = _SEARCH.format(limit=limit, among=condition, id=id_property)
            for row in self.database.read(text, asked=rows, index=self.index, **parameters):
                results[row["place"]].append((str(row["id"]), float(row["score"])))
        return [sorted(matches, key=lambda pair: -pair[1]) for matches in results]


def _query(words: Sequence[str]) -> str:
    """Return a Lucene query for any of some words, each once, in quotation marks so that none is read as its syntax.

    >>> _query(["loom", "or", "loom"])
    '"loom" "or"'
    """
    return " ".join(f'"{word}"' for word in dict.fromkeys(words))
