"""The properties of an index in PostgreSQL, read from its tables: those of :func:`~graph_retrievers.systems.traits.traits_of`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from graph_retrievers.graph.languages import inflected, main_languages, stem_of
from graph_retrievers.graph.names import NameTable, name_words
from graph_retrievers.graph.page_order import titled_rows
from graph_retrievers.graph.words import korean_stems
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.values import decoded, encoded
from graph_retrievers.stores.postgres.words import stored_term
from graph_retrievers.systems.traits import are_passages, mentions, names_in, node_name, rare_names, sampled_places

# Texts from which the language is found, and the characters of each.
_TEXTS, _CHARACTERS = 1000, 1000
# Characters of a name by which it is compared.
_CUT = 1000
_OF = "FROM {nodes} n WHERE n.corpus = %(corpus)s"
# A title names the first of the nodes of its page that have it; see graph_retrievers.graph.page_order.
_COUNTS = f"""\
SELECT count(*), coalesce(sum(n.length), 0), coalesce(bool_or(n.title <> ''), false), count(*) FILTER (WHERE n.linked),
    coalesce(max(n.name_words), 0), count(*) FILTER (WHERE n.is_lower AND (n.title = '' OR n.page = '')),
    (SELECT count(*) FROM (SELECT DISTINCT n.page, n.title {_OF} AND n.is_lower AND n.title <> '' AND n.page <> '') x),
    (SELECT coalesce(sum(x.nodes), 0) FROM (
        SELECT count(*) AS nodes {_OF} AND NOT n.is_place GROUP BY n.title, n.source HAVING count(*) > 1
    ) x)
{_OF}"""
_NAME_ROWS = f"""\
SELECT n.position, n.id, n.title, n.page {_OF} AND n.name_words > 0 AND (length(n.name_key) >= {_CUT} OR NOT EXISTS (
    SELECT FROM unnest(string_to_array(n.name_key, ' ')) AS w (word) WHERE w.word NOT IN (SELECT word FROM read_words)
))
ORDER BY n.position"""


class CorpusTraits(NamedTuple):
    """The number of nodes, the number of words in all of them, and their properties."""

    size: int
    length: int
    traits: dict[str, Any]


def corpus_traits(writing: Writing, corpus: int, settings: Mapping[str, Any], include_titles: bool) -> CorpusTraits:
    """Return the properties of an index; `settings` are those of BM25.

    Everything is counted by the database, and 2,000 nodes are read.
    """
    return _Corpus(writing, corpus, settings).traits(include_titles)


class _Corpus:
    def __init__(self, writing: Writing, corpus: int, settings: Mapping[str, Any]) -> None:
        self._writing, self._corpus, self._settings = writing, corpus, settings
        counts = self._rows(_COUNTS)[0]
        self.size, self.length, self._titled, self._linked, self._longest, lower, lower_pages, self._similar = counts
        self._capitals = 2 * (lower + lower_pages) < self.size

    def _rows(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._writing.run(text, corpus=self._corpus, **parameters).fetchall()  # type: ignore[no-any-return]

    def traits(self, include_titles: bool) -> CorpusTraits:
        types = self._rows(f"SELECT n.type, bool_and(n.is_name) {_OF} GROUP BY n.type")
        relations = self._rows("SELECT relation FROM {edges} WHERE corpus = %(corpus)s GROUP BY relation ORDER BY min(position)")
        names = [kind for kind, is_name in types if is_name]
        # Where all nodes are names, there are no texts of others for them to be names in.
        names = names if len(names) < len(types) else []
        share = self._mention_share()
        traits = {
            "nodes": self.size,
            "include_titles": include_titles,
            "type_names": sorted(decoded(kind) for kind, _ in types),
            "relation_names": [decoded(name) for (name,) in relations],
            "has_edges": bool(relations),
            "types of names": sorted(map(decoded, names)),
            "titles told": self._titled,
            "holds passages": self._holds_passages(names, len(types)),
            "holds pieces": 2 * int(self._similar) > self.size,
            "names identify": self._names_identify(share),
            "names in the texts": share,
            "names in texts": names_in([text for *_, text in self._sample]),
            "documents linked": self._linked / max(self.size, 1),
            "names have capitals": self._capitals,
            "longest name": self._longest,
        }
        return CorpusTraits(self.size, int(self.length), traits)

    @cached_property
    def _sample(self) -> list[tuple[int, str, str, str]]:
        """Position, id, title and text of the nodes that are read."""
        positions = list(sampled_places(self.size))
        rows = self._rows(
            f"SELECT n.position, n.id, n.title, n.text {_OF} AND n.position = ANY(%(positions)s)", positions=positions
        )
        rows_by_position = {row[0]: (row[0], *map(decoded, row[1:])) for row in rows}
        return [rows_by_position[position] for position in positions]  # type: ignore[misc]

    def _holds_passages(self, names: Sequence[str], types: int) -> bool:
        if not names:
            return are_passages([text for *_, text in self._sample])
        if types == len(names) + 1:
            return True
        ((size,),) = self._rows(f"SELECT count(*) {_OF} AND n.type <> ALL(%(names)s)", names=names)
        rows = self._rows(
            "SELECT n.text FROM {nodes} n JOIN (SELECT n.node, row_number() OVER (ORDER BY n.position) - 1 AS place "
            f"{_OF} AND n.type <> ALL(%(names)s)) p USING (node) WHERE n.corpus = %(corpus)s AND p.place = ANY(%(places)s)",
            names=names,
            places=list(sampled_places(size)),
        )
        return are_passages([decoded(text) for (text,) in rows])

    def _names_identify(self, share: float) -> bool:
        analyser = BM25([], **{name: self._settings[name] for name in BM25.options})
        word_lists = analyser.tokenize([node_name(title, text, name) for _, name, title, text in self._sample])
        terms = sorted({stored_term(word) for words in word_lists for word in words})
        rows = self._rows("SELECT term, nodes FROM {terms} WHERE corpus = %(corpus)s AND term = ANY(%(terms)s)", terms=terms)
        counts = dict(rows)
        return rare_names([[counts.get(stored_term(word), 0) for word in words] for words in word_lists], self.size, lambda: share)

    def _mention_share(self) -> float:
        positions, _, titles, texts = map(list, zip(*self._sample, strict=True)) if self._sample else ([], [], [], [])
        # Rows are places in the sample's table of names; a node that is not in it is the row -1.
        table, rows = NameTable([]), dict[int, int]()

        def make_table(contents: list[str]) -> NameTable:
            nonlocal table
            nodes = self._possible_names(contents)
            rows.update({position: row for row, (position, _) in enumerate(nodes)})
            table = NameTable([name for _, name in nodes], fold=True, language=self._inflected)
            table.capitals = self._capitals
            return table

        class Places(Sequence[int]):
            """The rows of the nodes of the sample, once they are known."""

            def __len__(self) -> int:
                return len(positions)

            def __getitem__(self, place: Any) -> Any:
                return rows.get(positions[place], -1)

        return mentions(Places(), titles, texts, make_table)

    @cached_property
    def _inflected(self) -> str:
        step = max(1, self.size // _TEXTS)
        rows = self._rows(
            f"SELECT left(n.text, {_CHARACTERS}) {_OF} AND n.position = ANY(%(positions)s) ORDER BY n.position",
            positions=list(range(0, self.size, step)),
        )
        return inflected(main_languages([decoded(text) for (text,) in rows]))

    def _possible_names(self, texts: Iterable[str]) -> list[tuple[int, str]]:
        """Return position and name of the nodes whose names may be in texts: those all of whose words are."""
        words = {word for text in texts for word in name_words(text, fold=True)}
        words |= {stem for word in words for stem in korean_stems(word)}
        if self._inflected:
            stem = stem_of(self._inflected)
            stems = {stem(word) for word in words}
            name_rows = self._rows(f"SELECT DISTINCT unnest(string_to_array(n.name_key, ' ')) {_OF}")
            words |= {word for (key,) in name_rows if stem(word := decoded(key)) in stems}
        self._writing.run('CREATE TEMPORARY TABLE read_words (word text COLLATE "C") ON COMMIT DROP')
        self._writing.copy("read_words (word)", ((encoded(word),) for word in words))
        self._writing.run("ANALYZE read_words")
        rows = [(place, decoded(name), decoded(title), page) for place, name, title, page in self._rows(_NAME_ROWS)]
        places = self._named_positions(rows)
        return [(place, title or name) for place, name, title, _ in rows if not title or place in places]

    def _named_positions(self, rows: Sequence[tuple[int, str, str, str]]) -> set[int]:
        """Return the positions of the nodes that their titles name: of nodes of a page with the same title, only the first."""
        first_places, shared_pages = dict[tuple[str, str], int](), set[str]()
        for place, _, title, page in rows:
            if title and page and first_places.setdefault((page, title), place) != place:
                shared_pages.add(page)
        positions = {place for place, _, title, page in rows if title and page not in shared_pages}
        node_rows = self._rows(
            f"SELECT n.position, n.title, n.metadata, n.origin {_OF} AND n.title <> '' AND n.page = ANY(%(pages)s) "
            "ORDER BY n.position",
            pages=sorted(shared_pages),
        )
        places, titles, metadata, origins = zip(*node_rows, strict=True) if node_rows else ((), (), (), ())
        return positions | {places[row] for row in titled_rows(titles, metadata, origins)}
