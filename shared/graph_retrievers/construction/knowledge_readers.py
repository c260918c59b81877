"""Existing knowledge graphs: LangChain graph documents, LlamaIndex property graphs, files of triples.

Each function returns nodes and edges for ``GraphIndex.from_nodes(*reader(...), embedding=...)``; for networkx see
:func:`graph_retrievers.construction.networkx_graphs.from_networkx`. Frameworks are recognised by attributes and not imported. The
text of an entity without a description is its first five facts, so that it can be compared with questions: a name alone is
similar to few questions, and gates that compare vectors would exclude it. Entities of several names can be merged:
:func:`graph_retrievers.construction.knowledge.resolve_entities`.

Of the properties that a relation has in a framework, ``weight`` is the weight of its edge, ``description``, ``text`` and
``summary`` are its text, and all others its metadata. A relation that several documents state between the same two entities is one
edge: with the largest weight, the distinct descriptions joined, and a list of the distinct values of a property that differ. The
properties of an entity in several documents are joined in the same way.
"""

from __future__ import annotations

import csv
import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_retrievers.construction.documents import node_origin
from graph_retrievers.construction.entity_resolution import majority_type
from graph_retrievers.construction.knowledge import MENTIONS, PASSAGE, canonical_description
from graph_retrievers.construction.omissions import Omissions
from graph_retrievers.datasets import json_value, text_lines
from graph_retrievers.errors import DatasetError, InvalidArgumentError, few, shown
from graph_retrievers.graph.corpus_graph import HEAVIEST, LIGHTEST, Edge, Node
from graph_retrievers.graph.plain import plain

__all__ = ["from_graph_documents", "from_property_graph_store", "from_triples_file", "store_triplets", "warn_of_lost_chunks"]

_logger = logging.getLogger(__name__)

_Key = tuple[str, str, str]
_DESCRIPTION = ("description", "text", "summary")
# The property that names the chunk an entity was found in.
_SOURCE = "triplet_source_id"
_WEIGHT = "weight"
# Facts that describe an entity; more would take longer to embed than they help.
_FACTS = 5
_COLUMNS = (("source", "head", "subject"), ("relation", "predicate", "label"), ("target", "tail", "object"))


@dataclass
class _Entities:
    """Entities in order of appearance, with all types and properties given for each."""

    types: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    vectors: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, kind: str, properties: Mapping[str, Any]) -> str:
        self.types[name].append(kind)
        self.properties[name].append(properties)
        return name

    def nodes(self, edges: Iterable[_Key], omissions: Omissions, passages: Mapping[str, Node] | None = None) -> list[Node]:
        """Return the entities as nodes; those found in one of `passages` hide the same metadata from models as it does."""
        titles = {
            name: next(_texts(mappings, ("name", "title"), f"node {shown(name)}", omissions), name)
            for name, mappings in self.properties.items()
        }
        facts: dict[str, list[str]] = defaultdict(list)
        for source, target, relation in edges:
            words = (titles.get(source, source), relation.replace("_", " "), titles.get(target, target))
            for end in dict.fromkeys((source, target)):
                facts[end] += [f"{' '.join(filter(None, words))}."] if len(facts[end]) < _FACTS else []
        nodes = []
        for name, kinds in self.types.items():
            mappings, owner = self.properties[name], f"node {shown(name)}"
            title = titles[name]
            text = canonical_description(_texts(mappings, _DESCRIPTION, owner, omissions)) or " ".join(facts[name])
            metadata = _merge_properties(mappings, (*_DESCRIPTION, "name", "title", _SOURCE), owner, omissions)
            chunk = next((p[_SOURCE] for p in mappings if p.get(_SOURCE)), None)
            origin: dict[str, Any] = {"relationships": {"1": {"node_id": chunk}}} if chunk else {}
            if chunk and passages and chunk in passages:
                origin |= {key: value for key, value in passages[chunk].origin.items() if key.startswith("excluded_")}
            nodes.append(
                Node(name, text or title, title if text else "", majority_type(kinds), metadata, origin, self.vectors.get(name))
            )
        return nodes


@dataclass
class _Relations:
    """Relations in order of appearance, as source, target and relation, with all properties given for each."""

    properties: dict[_Key, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, target: str, relation: str, properties: Mapping[str, Any]) -> None:
        self.properties[source, target, relation].append(properties)

    def edges(self, omissions: Omissions) -> list[Edge]:
        """Return one edge a relation; weights that are not numbers stay in the metadata, with a warning."""
        edges, bad_keys = [], []
        for key, mappings in self.properties.items():
            weights = [_weight(p[_WEIGHT]) for p in mappings if p.get(_WEIGHT) is not None]
            valid_weights = [weight for weight in weights if weight is not None]
            if len(valid_weights) < len(weights):
                bad_keys.append(key)
            owner = _relation_name(key[0], key[2], key[1])
            text = canonical_description(_texts(mappings, _DESCRIPTION, owner, omissions))
            exclusions = (*_DESCRIPTION, _WEIGHT) if len(valid_weights) == len(weights) else _DESCRIPTION
            metadata = _merge_properties(mappings, exclusions, owner, omissions)
            # The largest weight counts, as for parallel edges: a store may give the same triplet twice.
            edges.append(Edge(*key, max(valid_weights, default=1.0), text, metadata))
        if bad_keys:
            _logger.warning(
                "The property %r of %d relations is not a number from 1e-30 to 1e+30; it is in the metadata of their edges: %s.",
                _WEIGHT,
                len(bad_keys),
                few([*map(repr, bad_keys)]),
            )
        return edges


def _weight(value: Any) -> float | None:
    """Return a number that is a weight of edges, also if it is written as text, as language models do; None for other values."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if LIGHTEST <= number <= HEAVIEST and not isinstance(value, bool) else None


def _texts(mappings: Iterable[Mapping[str, Any]], names: Iterable[str], owner: str, omissions: Omissions) -> Iterator[str]:
    """Yield the texts in some properties; a list or mapping is not a text, and is left out."""
    for properties in mappings:
        for name in names:
            if not (value := properties.get(name)):
                continue
            if isinstance(value, Iterable) and not isinstance(value, str):
                omissions.add(f"property {name!r} of {owner}", f"a {type(value).__name__}, not a text")
            else:
                yield str(value)


def _merge_properties(
    mappings: Iterable[Mapping[str, Any]], without: Collection[str], owner: str, omissions: Omissions
) -> dict[str, Any]:
    """Return the properties of several mappings, as a list of the distinct values where they differ.

    A property without a JSON form is left out.
    """
    variants: dict[str, dict[str, Any]] = {}
    for properties in mappings:
        for name, value in properties.items():
            if name not in without:
                try:
                    plain_value = plain(value, f"property {name!r}")
                except InvalidArgumentError as error:
                    omissions.add(f"property {name!r} of {owner}", str(error).removesuffix("."))
                    continue
                # JSON distinguishes 1 from True.
                variants.setdefault(name, {})[json.dumps(plain_value, sort_keys=True)] = plain_value
    return {name: list(values.values()) if len(values) > 1 else next(iter(values.values())) for name, values in variants.items()}


def from_graph_documents(documents: Iterable[Any], *, strict: bool = False) -> tuple[list[Node], list[Edge]]:
    """Return the nodes and edges of LangChain graph documents; InvalidArgumentError if an object is not one.

    These have ``nodes`` (``id``, ``type``, ``properties``), ``relationships`` (``source``, ``target``, ``type``, ``properties``)
    and ``source``, the document from which they were read. The nodes are the source documents, of type "passage" (without an id:
    "passage:" and the position), then the entities with their own ids; the descriptions of an entity in several documents are
    joined. The edges are the distinct relationships, with their properties (see this module), then "mentions" from each passage to
    its entities.

    An entity without an id, a relationship with such an end, a title or description that is not a text, such as a list, and a
    property without a JSON form are left out, and a warning names the first ten; `strict` raises an InvalidArgumentError that names
    them all.
    """
    entities, relations, omissions = _Entities(), _Relations(), Omissions("the graph documents", strict)
    passages: list[Node] = []
    mentions: dict[_Key, None] = {}
    for position, document in enumerate(documents):
        if not all(hasattr(document, name) for name in ("nodes", "relationships")):
            raise InvalidArgumentError(
                f"Item {position} is a {type(document).__name__}; expected a graph document with nodes, relationships and source."
            )
        where = f"of document {position}"
        names = []
        for place, n in enumerate(document.nodes):
            if str(n.id).strip():
                names.append(entities.add(str(n.id), str(n.type), n.properties))
            else:
                omissions.add(f"entity {place} {where}", "its id is empty")
        for relation in document.relationships:
            if not (str(relation.source.id).strip() and str(relation.target.id).strip()):
                omissions.add(_relation_name(relation.source.id, relation.type, relation.target.id, where), "an end has no id")
                continue
            source, target = (entities.add(str(n.id), str(n.type), n.properties) for n in (relation.source, relation.target))
            names += [source, target]
            relations.add(source, target, str(relation.type), relation.properties or {})
        page = getattr(document, "source", None)
        if page is not None:
            metadata = dict(page.metadata)
            identity = str(page.id or f"passage:{position}")
            passages.append(Node(identity, page.page_content, _title(metadata, identity, omissions), PASSAGE, metadata))
            mentions |= dict.fromkeys((identity, name, MENTIONS) for name in names)
    edges, nodes = relations.edges(omissions), entities.nodes(relations.properties, omissions)
    omissions.report(_logger)
    return [*passages, *nodes], [*edges, *(Edge(*key) for key in mentions)]


def from_property_graph_store(store: Any, *, strict: bool = False) -> tuple[list[Node], list[Edge]]:
    """Return the nodes and edges of a LlamaIndex property graph store, see :func:`from_graph_documents`.

    Raises InvalidArgumentError if the object is not a property graph store.

    Parameters
    ----------
    store : PropertyGraphStore
        Read with ``get()`` and ``get_triplets(ids=...)``. Chunk nodes become passages, with the metadata of their source nodes;
        an entity whose property ``triplet_source_id`` is the id of a chunk is linked to it by "mentions". If the store lists the
        vectors of nodes (``embed_kg_nodes=True``), the nodes have them as ``embedding``. The metadata of a chunk, which the
        extractors of LlamaIndex copy to its relations, are not taken for weights or descriptions of these. Entities and relations
        of chunks that the store no longer has are read too, with a warning: ``PropertyGraphIndex.delete_ref_doc`` leaves them.
        These relations have no weight and no description, because either may be the chunk's.
    strict : bool, default False
        Whether a node whose name or id is empty, a triplet with such an end, a title or description that is not a text, such as a
        list, or a property without a JSON form is an InvalidArgumentError, which names them all. By default they are left out,
        and a warning names the first ten.
    """
    if not (hasattr(store, "get") and hasattr(store, "get_triplets")):
        raise InvalidArgumentError(f"{type(store).__name__} is not a property graph store; expected get() and get_triplets().")
    entities, relations, passages = _Entities(), _Relations(), dict[str, Node]()
    omissions = Omissions("the property graph", strict)
    for place, node in enumerate(store.get()):
        if not str(node.id or "").strip():
            omissions.add(f"node {place}, a {getattr(node, 'label', '') or type(node).__name__}", "its name is empty")
            continue
        vector = getattr(node, "embedding", None)
        if hasattr(node, "text"):
            metadata, origin = _node_content(node.properties)
            passages[node.id] = Node(node.id, node.text, _title(metadata, node.id, omissions), PASSAGE, metadata, origin, vector)
        else:
            entities.add(node.id, str(node.label), {"name": node.name, **node.properties})
            entities.vectors[node.id] = vector
    for head, relation, tail in store_triplets(store, [*passages, *entities.types]):
        if not (str(head.id or "").strip() and str(tail.id or "").strip()):
            omissions.add(_relation_name(head.id, relation.label, tail.id), "an end has no name")
            continue
        for node in (head, tail):
            if node.id not in passages and node.id not in entities.types:
                entities.add(node.id, str(node.label), {"name": getattr(node, "name", node.id), **node.properties})
        relations.add(head.id, tail.id, str(relation.label), _own_properties(relation, passages))
    mentions = {
        (properties[_SOURCE], name, MENTIONS): None
        for name, mappings in entities.properties.items()
        for properties in mappings
        if properties.get(_SOURCE) in passages
    }
    mapping_lists = [*entities.properties.values(), *relations.properties.values()]
    lost_chunks = dict.fromkeys(
        str(p[_SOURCE]) for mappings in mapping_lists for p in mappings if p.get(_SOURCE) and p[_SOURCE] not in passages
    )
    if lost_chunks:
        warn_of_lost_chunks(lost_chunks)
    edges, nodes = relations.edges(omissions), entities.nodes(relations.properties, omissions, passages)
    omissions.report(_logger)
    return [*passages.values(), *nodes], [*edges, *(Edge(*key) for key in mentions)]


def warn_of_lost_chunks(chunks: Collection[str]) -> None:
    """Warn that a property graph has facts from chunks that were deleted."""
    _logger.warning(
        "The property graph has facts from chunks that it no longer has (%d: %s), and they are found as before: delete_ref_doc of "
        "a PropertyGraphIndex deletes chunks, not what was extracted from them. Build the property graph again without them, or "
        "delete the relations and entities whose property %r names one, unless another document states them too.",
        len(chunks),
        few([*map(repr, chunks)]),
        _SOURCE,
    )


def _own_properties(relation: Any, passages: Mapping[str, Node]) -> dict[str, Any]:
    """Return the properties of a relation, without a weight or a description that is one of the chunk that it was read from.

    If the store no longer has the chunk, whose properties are unknown then, no weight and no description is returned.
    """
    properties: dict[str, Any] = getattr(relation, "properties", None) or {}
    chunk = passages.get(str(properties.get(_SOURCE)))
    chunk_properties = chunk.metadata if chunk is not None else properties if properties.get(_SOURCE) else {}
    return {
        k: v
        for k, v in properties.items()
        if k not in (*_DESCRIPTION, _WEIGHT) or k not in chunk_properties or chunk_properties[k] != v
    }


def _title(metadata: Mapping[str, Any], passage: str, omissions: Omissions) -> str:
    """Return the title in the metadata of a passage, "" for none."""
    return next(_texts([metadata], ["title"], f"passage {shown(passage)}", omissions), "")


def _relation_name(source: Any, relation: Any, target: Any, where: str = "") -> str:
    return f"relation {shown(str(relation), 40)} from {shown(source, 40)} to {shown(target, 40)} {where}".strip()


def _node_content(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and origin of the LlamaIndex node that a store wrote as the properties of a chunk."""
    try:
        fields = json.loads(properties["_node_content"])
        return dict(fields["metadata"]), node_origin(fields)
    except (KeyError, TypeError, ValueError, RecursionError):
        # LlamaIndex did not write this chunk.
        return dict(properties), {}


def store_triplets(store: Any, ids: list[str]) -> Iterator[Any]:
    """Yield the triplets of a property graph store with one of the nodes `ids` at an end; some may be repeated."""
    graph: Any = getattr(store, "graph", None)
    if hasattr(graph, "triplets") and hasattr(graph, "get_triplets"):
        # The framework's own store keeps everything in memory; reading it by id takes quadratic time.
        yield from sorted(graph.get_triplets(), key=lambda triplet: tuple(part.id for part in triplet))
        return
    for start in range(0, len(ids), 1000):
        yield from store.get_triplets(ids=ids[start : start + 1000])


def from_triples_file(file: str | Path, *, strict: bool = False) -> tuple[list[Node], list[tuple[str, str, str]]]:
    r"""Return the nodes and edges of a file of triples: one node per name, in order of appearance, with the name as id and title.

    The file is ``.csv``, ``.tsv`` or ``.jsonl``, in UTF-8. Columns are named ``source`` (``head``, ``subject``), ``relation``
    (``predicate``, ``label``) and ``target`` (``tail``, ``object``); without a line of column names, the first three columns are
    read in this order. A line that is not a triple is left out, and a warning names the first ten. Raises DatasetError if the file
    is missing, of another kind, or has no triple, or with `strict` if a line is not one; the message names all such lines.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "facts.csv").write_text("head,relation,tail\nAda Lovelace,wrote,Note G\n")
    ...     nodes, edges = from_triples_file(Path(folder, "facts.csv"))
    >>> (nodes[1].id, nodes[1].title, nodes[1].text), edges
    (('Note G', 'Note G', 'Ada Lovelace wrote Note G.'), [('Ada Lovelace', 'Note G', 'wrote')])
    """
    path = Path(file)
    readers = {".csv": _table_rows, ".tsv": _table_rows, ".jsonl": _json_rows}
    if path.suffix not in readers:
        raise DatasetError(f"{path} is not a file of triples; expected .csv, .tsv or .jsonl.")
    entities, omissions = _Entities(), Omissions(str(path), strict)
    edges = []
    try:
        for line, triple in readers[path.suffix](path):
            source, relation, target = (str(part).strip() if part is not None else "" for part in triple or ("", "", ""))
            if not source or not target:
                omissions.add(f"line {line}", "it is not a triple of a source, a relation and a target")
                continue
            for name in (source, target):
                entities.add(name, "", {})
            edges.append((source, target, relation))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    omissions.report(_logger, error=DatasetError)
    if omissions and not edges:
        raise DatasetError(f"{path} has no triple: {omissions.items[0]}.")
    return entities.nodes(edges, omissions), edges


def _table_rows(path: Path) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the numbers of lines and their triples, None for a line with too few columns."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        rows = csv.reader(handle, delimiter="," if path.suffix == ".csv" else "\t")
        places: list[int] | None = None
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if places is None:
                header = [cell.strip().lower() for cell in row]
                indices = [next((header.index(n) for n in column if n in header), -1) for column in _COLUMNS]
                places = indices if min(indices) >= 0 else [0, 1, 2]
                if min(indices) >= 0:
                    continue
            yield rows.line_num, [row[place] for place in places] if len(row) > max(places) else None


def _json_rows(path: Path) -> Iterator[tuple[int, list[Any] | None]]:
    """Yield the numbers of lines and their triples, None for a line that is not a triple."""
    for line, text in text_lines(path):
        if not text.strip():
            continue
        try:
            row = json_value(path, line, text)
        except DatasetError:
            row = None
        if isinstance(row, dict):
            yield line, [next((row[n] for n in column if n in row), None) for column in _COLUMNS]
        else:
            yield line, row if isinstance(row, list) and len(row) == 3 else None
