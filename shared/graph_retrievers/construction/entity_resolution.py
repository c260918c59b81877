"""Entity resolution: names of the same entity (Glybovets and Makarov, section III-A)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx

from graph_retrievers.graph.words import MARKS

# A name of one frequent word would put thousands of names into one prompt.
_LARGEST_CLUSTER = 100
_DESCRIPTION_LENGTH = 120
_WORD = re.compile(rf"\w[\w{MARKS}]*")


def majority_type(types: Iterable[str]) -> str:
    """Return the most frequent type; of equally frequent ones the alphabetically first, "" if there is none."""
    counts = Counter(t for t in types if t)
    return min(counts, key=lambda t: (-counts[t], t)) if counts else ""


def candidate_clusters(type_of: Mapping[str, str]) -> list[list[str]]:
    """Return sorted clusters of names that may mean one entity, from a mapping of names to types.

    Two names of one type are joined if the words of one are a subset of the words of the other; clusters are the connected
    components. A cluster of more than 100 names is divided into several prompts; the paper does not address this.
    """
    by_type: dict[str, list[str]] = defaultdict(list)
    for name in sorted(type_of):
        by_type[type_of[name]].append(name)
    clusters: list[list[str]] = []
    for kind in sorted(by_type):
        for component in _components(by_type[kind]):
            pieces = -(-len(component) // _LARGEST_CLUSTER)
            size = -(-len(component) // pieces)
            clusters += [component[start : start + size] for start in range(0, len(component), size)]
    return sorted((cluster for cluster in clusters if len(cluster) > 1), key=lambda cluster: cluster[0])


def _components(names: Sequence[str]) -> list[list[str]]:
    words = [frozenset(_WORD.findall(name.casefold())) for name in names]
    rows_by_words: dict[frozenset[str], int] = {}
    holders: dict[str, set[int]] = defaultdict(set)
    graph = networkx.empty_graph(len(names))
    for row, tokens in enumerate(words):
        if tokens and rows_by_words.setdefault(tokens, row) != row:
            graph.add_edge(rows_by_words[tokens], row)
        for token in tokens if rows_by_words.get(tokens) == row else ():
            holders[token].add(row)
    for tokens, row in rows_by_words.items():
        if tokens:
            # Names that contain all words of this one; pairs of names without a common word are never compared.
            rarest = sorted((holders[token] for token in tokens), key=len)
            graph.add_edges_from((row, other) for other in rarest[0].intersection(*rarest[1:]))
    return [[names[row] for row in sorted(component)] for component in networkx.connected_components(graph)]


def group_schema(cluster: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the answer about one cluster: disjoint groups of its names, each with a canonical name."""
    name = {"type": "string", "enum": list(cluster)}
    group = {
        "type": "object",
        "properties": {"canonical": name, "members": {"type": "array", "items": name}},
        "required": ["canonical", "members"],
        "additionalProperties": False,
    }
    groups = {"type": "array", "items": group}
    return {"type": "object", "properties": {"groups": groups}, "required": ["groups"], "additionalProperties": False}


def resolution_prompt(cluster: Sequence[str], kind: str, descriptions: Mapping[str, str]) -> str:
    """Return the prompt for one cluster, with the first 120 characters of each name's description."""
    lines = [f"- {name}: {descriptions.get(name, '')[:_DESCRIPTION_LENGTH] or '(no description)'}" for name in cluster]
    return (
        f"These names of type {kind or 'unknown'} come from one collection of documents. Some of them may be different names "
        "of one and the same entity. Put names into a group only if you are sure that they mean the same entity; leave every "
        "other name out. Name in each group the most complete form as canonical, and repeat it among the members.\n\n"
        + "\n".join(lines)
    )


def merged_names(clusters: Sequence[Sequence[str]], answers: Sequence[Any]) -> dict[str, str]:
    """Return the canonical name of each alias, from the answers about the clusters (None for a failed one).

    A group counts if it has at least two members, its canonical name is one of them, and none of them is in an earlier group. The
    result depends on the order of the clusters, not on the order in which the answers arrived.
    """
    alias_of: dict[str, str] = {}
    used_names: set[str] = set()
    for cluster, answer in zip(clusters, answers, strict=True):
        for group in (answer or {}).get("groups", ()):
            members, canonical = list(dict.fromkeys(group["members"])), group["canonical"]
            if len(members) >= 2 and canonical in members and used_names.isdisjoint(members) and set(members) <= set(cluster):
                used_names.update(members)
                alias_of |= {name: canonical for name in members if name != canonical}
    return alias_of
