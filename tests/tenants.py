"""Worlds of tenants that share words, titles, types and relations; and the check that no tenant sees or moves another.

``python tests/tenants.py --tenants 100 --queries 10000`` runs it over every retriever.
"""

import argparse
import json
import random
import re
import sys
from itertools import cycle, islice

import torch

from graph_retrievers import Edge, GraphIndex, Hits, MoR, Node, Pipeline, Retriever, SpreadingActivation
from graph_retrievers.operators import (
    ChainSearch,
    EntityLinking,
    FactSearch,
    GatedPropagation,
    HybridSearch,
    MetapathSearch,
    PathSearch,
)
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.systems.mor.planner import LanguageModelPlanner
from tests.helpers import HashEmbedding
from tests.retrievers import EVERY

WORDS = "loom card engine brass gear wheel shaft lever drum pattern thread weaver program number table mill".split()
PLAN = [{"type": "person", "restriction": "loom"}, {"type": "thing", "relation": "knows"}]


class Overlap(RelevanceModel):
    """Latents: how many words question and text share, and the length of the text."""

    name = "overlap"

    def encode(self, queries, texts):
        shared = (len(set(q.lower().split()) & set(t.lower().split())) for q, t in zip(queries, texts, strict=True))
        return torch.tensor([[float(count), float(len(text))] for count, text in zip(shared, texts, strict=True)]).reshape(-1, 2)

    def score(self, latents):
        return latents[..., 0] + latents[..., 1] / 1000


def tenant(name, size, seed):
    """Return the nodes and edges of one tenant; titles are shared with others, bodies and edge texts name the tenant."""
    rng = random.Random(f"{name} {seed}")
    nodes = []
    for number in range(size):
        # Names that others have too, longer ones that contain those of others, and ordinary words.
        title = " ".join(rng.sample(WORDS, rng.choice([1, 1, 2, 3])))
        title = title.title() if rng.random() < 0.7 else title
        title = f"{title} Of{name}" if rng.random() < 0.3 else title
        text = f"Body{name} " + " ".join(rng.choices(WORDS, k=rng.choice([4, 30])))
        kind = rng.choice(["person", "thing", "passage"]) if rng.random() < 0.9 else f"Type{name}"
        nodes.append(Node(f"id{name}-{number}", text, title, kind, {"tenant": name, "tags": [f"Tag{name}", "all"]}))
    edges = []
    for number in range(3 * size):
        ends = rng.sample(nodes, 2)
        relation = rng.choice(["knows", "has", "made by"]) if rng.random() < 0.9 else f"Relation{name}"
        text = f"Edge{name} {rng.choice(WORDS)}" if rng.random() < 0.5 else ""
        edges.append(Edge(*(node.id for node in ends), relation, rng.choice([1.0, 2.5]), text, {"made": number}))
    return nodes, edges


def links(parts, rng):
    """Return edges between nodes of different tenants."""
    nodes = [node for own, _ in parts for node in own]
    pairs = (rng.sample(nodes, 2) for _ in range(len(nodes)))
    return [Edge(a.id, b.id, "Between", text="EdgeBetween") for a, b in pairs if a.metadata["tenant"] != b.metadata["tenant"]]


def world(sizes, seed, own=0):
    """Return the index of tenants of given sizes; `seed` is that of all tenants but the `own` first ones."""
    rng = random.Random(seed)
    parts = [tenant(f"T{number}x", size, 0 if number < own else seed) for number, size in enumerate(sizes)]
    nodes, edges = interleaved([nodes for nodes, _ in parts], rng), interleaved([edges for _, edges in parts], rng)
    for edge in links(parts, rng):
        edges.insert(rng.randrange(len(edges) + 1), edge)
    return index_of(nodes, edges)


def interleaved(lists, rng):
    """Return the items of all lists in random order; those of one list keep theirs."""
    order = [number for number, items in enumerate(lists) for _ in items]
    rng.shuffle(order)
    following = [iter(items) for items in lists]
    return [next(following[number]) for number in order]


def index_of(nodes, edges, relevance=None):
    relevance = Overlap() if relevance is None else relevance
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(16), edge_signals=True, relevance=relevance)


KINDS = ("names", "relations", "links")


def of_kind(kind, name, size):
    """Return the nodes and edges of a tenant whose documents are of one kind, by the form that WalkFusion has on them."""
    rng, nodes = random.Random(f"{kind} {name}"), []
    for number in range(size):
        words = " ".join(rng.choices(WORDS, k=25))
        title, text, node = f"Ada N{name}{number}", f"{words} with Ada N{name}{rng.randrange(size)}", "passage"
        if kind == "relations":
            text, node = "", rng.choice(["person", "film"])
        elif kind == "links":
            title, text = rng.choice(["Tables", "Notes"]), f"Tables and notes of {words}"
        nodes.append(Node(f"{name}-{number}", text, title, node, {"tenant": name}))
    ends = (rng.sample(nodes, 2) for _ in range(2 * size))
    return nodes, [Edge(a.id, b.id, rng.choice(["knows", "has"]), text=f"known to {name}") for a, b in ends]


def retrievers(index):
    """Return every retriever by name, and compositions with chains and facts; models have the same weights each time."""
    torch.manual_seed(0)
    made = {name: Retriever(index, name) for name in EVERY}
    made["chains"] = Retriever(index, SpreadingActivation(chains="hits", gate="uniform"), k=10)
    made["chain-paths"] = Retriever(index, SpreadingActivation(chains="path", passages=False), k=10)
    made["passages"] = Retriever(index, SpreadingActivation(passages=True, chains="hits"), k=10)
    made["mor-planned"] = Retriever(index, MoR(planner=LanguageModelPlanner(lambda prompt: json.dumps({"paths": [PLAN]}))))
    found = Pipeline(FactSearch(6, signal="edge_bm25"), GatedPropagation(steps=2, gate="uniform"), ChainSearch(5))
    made["facts"] = Retriever(index, found, k=10)
    made["paths"] = Retriever(index, Pipeline(HybridSearch(), PathSearch()), k=10)
    made["metapaths"] = Retriever(index, Pipeline(EntityLinking(), MetapathSearch()), k=10)
    return made


def questions(index, rng):
    """Yield questions with names of any tenant."""
    while True:
        names = " and ".join(rng.choice(index.graph.titles) for _ in range(2))
        yield f"{rng.choice(['Who', 'what'])} {rng.choice(WORDS)} {names}?"


def everything(hits: Hits) -> str:
    """Return all that a result holds as one text."""
    shown = hits.subgraph()
    parts = [f"{json.dumps(hit.to_dict())}{hit!r}{hit.edge!r}{hit.path.text}{hit.origin!r}{hit.explain()}" for hit in hits]
    return "\n".join([*parts, hits.to_context(), repr(shown.nodes), repr(shown.edges), repr(hits.notes), shown.to_mermaid()])


WORDS_OF_OTHERS = ("Body", "Type", "Tag", "Relation", "Edge", "Of", "id")


def foreign(hits: Hits, name: str, kinds=WORDS_OF_OTHERS) -> list[str]:
    """Return the words of a result that only other tenants have, of some kinds."""
    found = re.findall(rf"(?:{'|'.join(kinds)})T[0-9]+x", everything(hits))
    between = ["Between"] if kinds is WORDS_OF_OTHERS and "Between" in everything(hits) else []
    return [word for word in found if not word.endswith(name)] + between


def by_scope(owner):
    return {"scope": {"tenant": owner}}


def compare(sizes, total, batch=20, names=None, given=by_scope):
    """Ask the retrievers of two worlds the same questions and return counts; in the second, half of the tenants have changed.

    `given` are the arguments by which a tenant asks. ``foreign`` counts results that show another tenant, ``moved`` those that
    differ between the worlds, be it in the last bit of a score.
    """
    rng, half = random.Random(1), len(sizes) // 2
    worlds = [world(sizes, 1, own=half), world([*sizes[:half], *sizes[::-1]], 2, own=half)]
    there = [retrievers(index) for index in worlds]
    asked = {"queries": 0, "hits": 0, "foreign": 0, "moved": 0}
    for number, name in enumerate(cycle(names or there[0])):
        if asked["queries"] >= total:
            return asked
        owner = f"T{number % half}x"
        texts = list(islice(questions(worlds[number % 2], rng), batch))
        first, second = (made[name].retrieve_batch(texts, **given(owner)) for made in there)
        asked["queries"] += len(texts)
        asked["hits"] += sum(map(len, first))
        asked["foreign"] += sum(bool(foreign(hits, owner)) for hits in (*first, *second))
        asked["moved"] += sum(
            one != other or everything(one) != everything(other) for one, other in zip(first, second, strict=True)
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--queries", type=int, default=10_000)
    given = parser.parse_args()
    sys.stdout.write(f"{compare([given.nodes] * given.tenants, given.queries)}\n")
