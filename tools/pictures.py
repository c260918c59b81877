"""The pictures of the pages on retrievers: one small graph, step by step. ``python tools/pictures.py`` writes them anew.

A panel is a caption and what happened so far, as words: ``a=search`` (a node and its state), ``d=walk:.22`` (with a number),
``a>c`` (an edge that was followed), ``c~d`` (a dashed line: names in common), ``[b]`` (drawn as a square: a passage). Lines in
quotation marks in the place of nodes are text.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "retrievers"
PLACES = {"a": (38, 34), "b": (38, 112), "c": (112, 73), "d": (186, 34), "e": (186, 112), "f": (112, 148)}
EDGES = ["ac", "bc", "cd", "ce", "de", "bf"]
WIDTH, HEIGHT, GAP = 232, 232, 12

STYLE = """
svg{--card:#fff;--line:#8c959f;--ink:#1f2328;--soft:#57606a;--node:#f6f8fa;--blue:#1d5fbf;--bluefill:#ddeafc;--green:#1a7f37;
--greenfill:#dafbe1;--violet:#7a3fb3;--violetfill:#f0e4fb}
@media (prefers-color-scheme:dark){svg{--card:#161b26;--line:#59616e;--ink:#e6e9ee;--soft:#a3abb8;--node:#232a38;--blue:#82b1ff;
--bluefill:#1b3357;--green:#5fd07f;--greenfill:#173a24;--violet:#c9a0f5;--violetfill:#38234f}}
text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink);font-size:13.5px}
.card{fill:var(--card);stroke:var(--line)}.edge{stroke:var(--line);stroke-width:1.5;fill:none}
.followed{stroke:var(--green);stroke-width:3;fill:none}.shared{stroke:var(--violet);stroke-width:2;stroke-dasharray:5 4;fill:none}
.node{fill:var(--node);stroke:var(--line);stroke-width:1.5}.search{fill:var(--bluefill);stroke:var(--blue);stroke-width:2.5}
.walk{fill:var(--greenfill);stroke:var(--green);stroke-width:2.5}.model{fill:var(--violetfill);stroke:var(--violet);stroke-width:2.5}
.name{text-anchor:middle;font-weight:600}.value{text-anchor:middle;font-size:12px;font-weight:600}.step{fill:var(--soft);font-weight:600}
""".replace("\n", "")
LEGEND = [("search", "found by search"), ("walk", "found by edges"), ("model", "read by a model")]

# Two panels or three: what a search finds, what follows, what comes first.
PICTURES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "search": (
        "Search compares every node with the question and follows no edges",
        [
            ("Vectors: nodes similar to the question", "a=search:.8 b=search:.7 e=search:.4"),
            ("BM25: nodes that share its words", "b=search:2 f=search:1"),
            ("Hybrid: both lists, fused by rank", "a=search:2 b=search:1 e=search:4 f=search:3"),
        ],
    ),
    "re2": (
        "A search finds candidates, and a relevance model reranks them",
        [
            ("Vector search finds candidates", "a=search:.8 b=search:.7 e=search:.4"),
            ("A model reads each with the question", "a=model:.2 b=model:.9 e=model:.5"),
            ("Its scores give the order", "a=model:3 b=model:1 e=model:2"),
        ],
    ),
    "fastinsight": (
        "Rounds of expansion along edges and reranking by smoothed latents",
        [
            ("Vector search finds the first nodes", "a=search b=search"),
            ("GRanker: a model reads them; latents are smoothed along edges", "a=model:.7 b=model:.6"),
            ("STeX: neighbours are added, and all are ranked again", "a=model:.7 b=model:.6 c=walk:.9 f=walk:.2 a>c b>c b>f"),
        ],
    ),
    "gar": (
        "Batches alternate between the search results and the neighbours of nodes that scored well",
        [
            ("A first batch from the search is scored", "a=model:.9 b=model:.2"),
            ("Then neighbours of the best nodes", "a=model:.9 b=model:.2 c=walk:.8 a>c"),
            ("Then the search again, and so on, until the budget is spent", "a=model:1 b=model:4 c=walk:2 e=model:3 a>c"),
        ],
    ),
    "ppr": (
        "A random walk that restarts at the nodes a search found",
        [
            ("Search finds the seeds", "a=search b=search"),
            ("A walk follows edges, and restarts at the seeds", "a=search b=search a>c b>c c>d c>e b>f"),
            ("Its most visited nodes first", "a=search:.28 b=search:.32 c=walk:.24 d=walk:.04 e=walk:.04 f=walk:.08 a>c b>c"),
        ],
    ),
    "hipporag": (
        "Facts similar to the question give the phrases at which the walk restarts",
        [
            ("Facts (edges between phrases) nearest to the question", "[f] [e] a=search c=search a>c"),
            ("A walk restarts at their phrases, and a little at passages", "[f] [e] a=search c=search a>c c>e b>c b>f"),
            ("Passages are ranked by the walk", "[f] [e] a=search c=search e=walk:1 f=walk:2 c>e b>f b>c"),
        ],
    ),
    "g-retriever": (
        "The connected subgraph with the highest prizes minus the cost of its edges",
        [
            ("Nodes and edges nearest to the question get prizes", "a=search:3 d=search:2 b=search:1"),
            ("A tree connects prizes that are worth the cost of its edges", "a=search:3 d=search:2 b=search:1 a>c c>d b>c"),
            ("Its nodes are the answer", "a=search:1 d=search:2 b=search:4 c=walk:3 a>c c>d b>c"),
        ],
    ),
    "spreading-activation": (
        "Activation spreads from the nodes that the question names, and more of it to similar nodes",
        [
            ("Names in the question activate nodes", "a=search:1.0"),
            ("Each step passes on a part, gated by similarity", "a=search:1.0 c=walk:.6 a>c"),
            ("After a few steps: the most active nodes", "a=search:1.0 c=walk:.6 d=walk:.4 e=walk:.1 a>c c>d c>e"),
        ],
    ),
    "mor": (
        "A plan of node types is followed, by edges and by text, and a trained model ranks the paths",
        [
            ("A plan: film, person, film", "a=search"),
            ("Each step: neighbours of the planned type, and texts that match", "a=search c=walk a>c b=search"),
            ("The nodes reached, ordered by a trained model", "a=search c=walk b=search d=model:1 e=model:2 a>c c>d c>e b>c"),
        ],
    ),
    "lightrag": (
        "Keywords find entities and relations, which lead to chunks",
        [
            ("Low-level keywords find entities, and their relations", "[e] [f] a=search a>c"),
            ("High-level keywords find relations, and their ends", "[e] [f] a=search c=search d=search a>c c>d"),
            ("The chunks of both", "[e] [f] a=search c=search d=search e=walk:1 a>c c>d c>e d>e"),
        ],
    ),
    "pathrag": (
        "A resource flows between the entities found, and the paths that keep most of it are read",
        [
            ("Search finds entities", "a=search e=search"),
            ("A resource flows from one end and divides", "a=search e=search c=walk d=walk a>c c>d c>e d>e"),
            ("The most reliable paths remain", "a=search e=search c=walk a>c c>e"),
        ],
    ),
    "linear-rag": (
        "Names lead from sentence to sentence; a walk over names and passages ranks the passages",
        [
            ("A name in the question activates a name of the texts", "[a] [b] [d] [e] c=search"),
            ("Sentences similar to the question pass it on", "[a] [b] [d] [e] c=search f=walk c~b b~f a~c"),
            ("A walk restarts there and ranks the passages", "[a] [b] [d] [e] c=search f=walk b=walk:1 a=walk:2 c~b b~f a~c"),
        ],
    ),
    "traversals": (
        "From the best nodes of a vector search to their neighbours, by one of three rules",
        [
            ("Eager: all of a layer, then the next", "a=search:1 b=search:2 c=walk:3 f=walk:4 a>c b>c b>f"),
            ("MMR: similar to the question, unlike the nodes visited", "a=search:1 f=walk:2 b=search:3 a>c b>f"),
            ("Scored: the best by your own function", "a=search:2 c=walk:1 d=walk:3 a>c c>d"),
        ],
    ),
    "rewriting": (
        "A language model rewrites the search query",
        [
            ("HyDE: a passage that answers", '"Did weavers and engineers" "share a technique?" "" "→ Both used holes in cards."'),
            ("Decomposition: simpler questions", '"→ What do looms read?" "→ What do engines read?" "" "Each is searched."'),
            ("IRCoT: search, a sentence, search", '"Search the question" "→ Looms read cards." "Search this" "→ So do engines."'),
        ],
    ),
    "think-on-graph": (
        "A model chooses relations, and then entities, round by round",
        [
            ("The entities of the question start", "a=search"),
            ("A model chooses relations, and then the best of their entities", "a=search c=model:.7 a>c"),
            ("Round by round, until the facts suffice", "a=search c=model:.7 d=model:.5 e=model:.2 a>c c>d c>e"),
        ],
    ),
    "kg2rag": (
        "Facts of the chunks lead to other chunks, and spanning trees arrange them",
        [
            ("Search finds chunks", "[a] [e] [f] a=search"),
            ("Facts of its entities lead to others", "[a] [e] [f] a=search c=walk d=walk e=walk a>c c>d d>e"),
            ("Chunks are arranged along a tree", "[a] [e] [f] a=model:1 c=walk d=walk e=model:2 a>c c>d d>e"),
        ],
    ),
    "graphrag-local": (
        "Entities like the question lead to their texts",
        [
            ("Search finds entities", "[a] [e] [f] c=search b=search"),
            ("Their texts, and their relationships", "[a] [e] [f] c=search b=search a=walk e=walk f=walk c>a c>e b>f b>c"),
            ("Texts first, in the order of the entities", "[a] [e] [f] a=walk:1 e=walk:2 f=walk:3 c=search:4 c>a c>e b>f"),
        ],
    ),
    "qafd-rag": (
        "Mass flows along edges that suit the question, until nodes can hold it",
        [
            ("Search finds seeds, which get all mass", "a=search:2 b=search:2"),
            ("What a node cannot hold flows on", "a=search:1 b=search:1 c=walk:1.6 f=walk:.4 a>c b>c b>f"),
            ("Nodes that sent most come first", "a=search:1 b=search:2 c=walk:3 d=walk:4 f=walk:5 a>c b>c b>f c>d"),
        ],
    ),
    "hykge": (
        "A hypothesis names entities, and chains between them are reranked by its fragments",
        [
            ("A model writes a hypothesis", '"→ Ada wrote a program" "for the engine, which" "reads cards as a loom does."'),
            ("Chains join the nodes of its entities", "a=search d=search f=search c=walk b=walk a>c c>d b>c b>f"),
            ("The chains that suit a fragment best", "a=model:1 c=model:2 d=model:3 f=search:4 a>c c>d"),
        ],
    ),
    "ego-grag": (
        "Ego graphs around the nodes that a search found are compared with the question",
        [
            ("Search finds centres", "b=search d=search"),
            ("Each with its neighbours has a vector", "b=search c=walk f=walk d=search e=walk b>c b>f d>c d>e"),
            ("The nodes of the best ego graphs", "d=search:1 e=walk:2 c=walk:3 d>c d>e"),
        ],
    ),
    "hybgrag": (
        "A model chooses texts or relations, judges what is found, and may choose again",
        [
            ("A model chooses: texts", "a=search b=search"),
            ("It judges: no. Then relations of an entity", "c=search d=walk e=walk c>d c>e"),
            ("It judges: yes. The most similar first", "c=search d=model:2 e=model:1 c>d c>e"),
        ],
    ),
    "subgraph-rag": (
        "A trained network scores the triples around the entities of the question",
        [
            ("The entities of the question are topics", "a=search"),
            ("Triples around them, at one or two edges", "a=search b=walk c=walk d=walk f=walk a>b a>c c>d b>f"),
            ("The ends of the best triples", "a=model:1 c=model:2 d=model:3 a>c c>d"),
        ],
    ),
    "gnn-rag": (
        "A trained graph neural network finds the answers around the entities of the question",
        [
            ("The entities of the question are topics", "a=search"),
            ("Messages pass along relations that fit the question", "a=search b=walk c=walk d=walk f=walk a>c a>b c>d b>f"),
            ("The most probable nodes, with their paths", "a=search c=walk d=model:1 a>c c>d"),
        ],
    ),
    "lesegr": (
        "Each candidate is scored by its own text and by what its neighbours say about the question",
        [
            ("Hybrid search finds candidates", "a=search b=search"),
            ("Neighbours send messages, weighted by words and by a network", "a=search b=search c=model f=model a>c b>c b>f"),
            ("Scores of texts with their neighbours", "a=model:2 b=model:3 c=model:1 f=model:4 a>c b>c b>f"),
        ],
    ),
    "g-rag": (
        "Documents are connected where their meaning graphs share concepts, and a network reranks them",
        [
            ("A search finds documents", "a=search b=search c=search e=search"),
            ("Shared concepts connect them", "a=search b=search c=search e=search a~c c~e b~c"),
            ("A graph neural network reranks them", "a=model:3 b=model:4 c=model:1 e=model:2 a~c c~e b~c"),
        ],
    ),
    "walk-fusion": (
        "Several walks from the nodes that match the question, fused by rank",
        [
            ("Passages scored with the passage that leads to them", "a=search c=walk a>c"),
            ("Expansion, and activation from names", "a=search b=search c=walk d=walk a>c b>c c>d"),
            ("The lists are fused by reciprocal rank", "a=search:1 c=walk:2 b=search:3 d=walk:4 a>c b>c c>d"),
        ],
    ),
    "path-reranking": (
        "A model reads each passage together with the passage that led to it",
        [
            ("WalkFusion finds passages and their paths", "a=search:1 b=search:2 c=walk:3 d=walk:4 a>c c>d"),
            ("A model reads c with a, d with c", "a=model b=model c=model d=model a>c c>d"),
            ("Its scores are combined with the ranks", "a=model:2 b=model:4 c=model:1 d=model:3 a>c c>d"),
        ],
    ),
}


def wrapped(text: str, width: int = 27) -> list[str]:
    """Return a caption in lines."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def panel(number: int, caption: str, words: str) -> str:
    """Return one panel at its place."""
    left = number * (WIDTH + GAP)
    frame = f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="12"/>'
    out = [f'<g transform="translate({left} 0)">{frame}']
    first, *more = wrapped(caption)
    out.append(f'<text x="14" y="24"><tspan class="step">{number + 1} </tspan>{escape(first)}</text>')
    out += [f'<text x="14" y="{24 + 18 * row}">{escape(line)}</text>' for row, line in enumerate(more, 1)]
    out.append('<g transform="translate(4 54)">')
    if words.startswith('"'):
        lines = re.findall(r'"([^"]*)"', words)
        out += [f'<text x="14" y="{34 + 22 * row}">{escape(line)}</text>' for row, line in enumerate(lines)]
        return "".join(out) + "</g></g>"
    states = {match[1]: (match[2], match[3]) for match in re.finditer(r"(\w)=(\w+)(?::(\S+))?", words)}
    kinds = dict.fromkeys(EDGES, "edge")
    for start, kind, end in re.findall(r"(\w)([>~])(\w)", words):
        key = next((key for key in (start + end, end + start) if key in kinds), start + end)
        kinds[key] = "followed" if kind == ">" else "shared"
    for ends, kind in sorted(kinds.items(), key=lambda item: item[1] != "edge"):
        (x, y), (u, v) = (PLACES[end] for end in ends)
        out.append(f'<path class="{kind}" d="M{x} {y}L{u} {v}"/>')
    for name, (x, y) in PLACES.items():
        state, value = states.get(name, ("node", ""))
        if f"[{name}]" in words:
            out.append(f'<rect class="{state}" x="{x - 17}" y="{y - 17}" width="34" height="34" rx="4"/>')
        else:
            out.append(f'<circle class="{state}" cx="{x}" cy="{y}" r="17"/>')
        out.append(f'<text class="{"value" if value else "name"}" x="{x}" y="{y + 5}">{escape(value or name)}</text>')
    return "".join(out) + "</g></g>"


def picture(title: str, panels: list[tuple[str, str]]) -> str:
    """Return a picture as SVG."""
    width = len(panels) * (WIDTH + GAP) - GAP
    told = "; ".join(f"{number}. {caption}" for number, (caption, _) in enumerate(panels, 1))
    used = [(kind, label) for kind, label in LEGEND if any(f"={kind}" in words for _, words in panels)]
    if any("~" in words for _, words in panels):
        used.append(("shared", "shared names or concepts"))
    signs = {"shared": f'<path class="shared" d="M10 {HEIGHT + 22}h18"/>'}
    legend = "".join(
        f'<g transform="translate({160 * place} 0)">'
        + signs.get(kind, f'<circle class="{kind}" cx="20" cy="{HEIGHT + 22}" r="7"/>')
        + f'<text x="34" y="{HEIGHT + 27}">{label}</text></g>'
        for place, (kind, label) in enumerate(used)
    )
    height = HEIGHT + (36 if used else 0)
    room = len(used) * 160 + (72 if used[-1][0] == "shared" else 12) if used else 0
    frame = f'<rect class="card" x=".5" y="{HEIGHT + 7.5}" width="{room}" height="28" rx="8"/>' if used else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="title description"><title id="title">{escape(title)}</title><desc id="description">{escape(told)}</desc>'
        f"<style>{STYLE}</style>"
        + frame
        + legend
        + "".join(panel(number, *each) for number, each in enumerate(panels))
        + "</svg>\n"
    )


def pictures() -> dict[str, str]:
    """Return all pictures by the name of their file."""
    return {f"{name}.svg": picture(*told) for name, told in PICTURES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    print(f"{len(PICTURES)} pictures in {FOLDER}")
