"""Document graphs: the concepts that the meaning graphs of a question's documents share (G-RAG, sections 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.signals.meaning import MeaningGraph

ROOT = "question"
NORMALIZATIONS = ("row-column", "doubly-stochastic")


def joint_graph(question: MeaningGraph, document: MeaningGraph) -> MeaningGraph:
    """Return one graph of a question and a document; a concept that both have is one node.

    The paper parses ``question:<question><document>`` as one text, so that its parser joins them. Parsed separately, a document
    is parsed only once for all questions.

    Examples
    --------
    >>> question = MeaningGraph.of(["question", "loom"], [(0, "mod", 1)])
    >>> joint_graph(question, MeaningGraph.of(["loom", "card"], [(0, "read", 1)])).labelled_relations()
    (('question', 'mod', 'loom'), ('loom', 'read', 'card'))
    """
    first = {concept: row for row, concept in reversed(list(enumerate(question.concepts)))}
    concepts, rows = list(question.concepts), []
    for concept in document.concepts:
        if concept in first:
            rows.append(first[concept])
        else:
            rows.append(len(concepts))
            concepts.append(concept)
    relations = ((rows[source], role, rows[target]) for source, role, target in document.relations)
    return MeaningGraph(tuple(concepts), (*question.relations, *relations))


def maximal_paths(graph: MeaningGraph, root: str = ROOT) -> list[list[int]]:
    """Return the shortest paths from a concept that are not part of another: the nodes of each path, starting with the root.

    G-RAG, section 3.2.1, "Path Identification". Relations are followed from source to target. If several nodes have the label
    `root`, the first is the root; without such a concept, no path is returned. Of several shortest paths to a node, the one with
    the lowest second-to-last node counts. Paths are ordered by their last nodes. (The paper leaves both orders open.)

    >>> maximal_paths(MeaningGraph.of(["question", "loom", "card"], [(0, "mod", 1), (1, "read", 2)]))
    [[0, 1, 2]]
    """
    parents = _parents(graph, root)
    inner, paths = set(parents.values()), []
    for node in sorted(parents.keys() - inner):
        path = [node]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        paths.append(path[::-1])
    return paths


def path_concepts(graph: MeaningGraph) -> list[str]:
    """Return the concepts on the maximal shortest paths, each once, in the order of the paths: :math:`a_i` of section 3.2.1."""
    return list(dict.fromkeys(graph.concepts[node] for path in maximal_paths(graph) for node in path))


def _parents(graph: MeaningGraph, root: str) -> dict[int, int]:
    """Return the node before each node that can be reached on its shortest path; -1 for the root."""
    if root not in graph.concepts:
        return {}
    after: dict[int, set[int]] = {}
    for source, _, target in graph.relations:
        after.setdefault(source, set()).add(target)
    start = graph.concepts.index(root)
    parents, front = {start: -1}, [start]
    while front:
        layer: dict[int, int] = {}
        for source in sorted(front):
            for target in after.get(source, ()):
                if target not in parents:
                    layer.setdefault(target, source)
        parents |= layer
        front = list(layer)
    return parents


def membership(sets: Sequence[Iterable[Hashable]], columns: dict[Hashable, int] | None = None) -> Tensor:
    """Return which elements each set contains: Tensor, shape [n, V], float32, 1 or 0.

    `columns` has the column of each element; others are ignored. By default there is one for each element of any set.

    >>> membership([["loom", "card"], ["card"]])
    tensor([[1., 1.],
            [0., 1.]])
    """
    if columns is None:
        columns = {element: column for column, element in enumerate(dict.fromkeys(e for s in sets for e in s))}
    places = [(row, columns[element]) for row, elements in enumerate(sets) for element in elements if element in columns]
    table = torch.zeros(len(sets), len(columns))
    if places:
        table[tuple(torch.tensor(places).T)] = 1
    return table


def edge_features(graphs: Sequence[MeaningGraph]) -> Tensor:
    r"""Return how many concepts and relations each two documents share, :math:`\hat E` of equation 3: [n, n, 2], float32.

    The diagonal is 0. `graphs` are those of each document together with the question. Concepts are compared by their labels,
    relations by the labels of both ends and the role; each counts once per document.

    >>> graphs = [MeaningGraph.of(["loom", "card"], [(0, "read", 1)]), MeaningGraph.of(["card", "loom"], [(1, "read", 0)])]
    >>> edge_features(graphs)[0, 1]
    tensor([2., 1.])
    """
    channels = []
    for sets in ([graph.concepts for graph in graphs], [graph.labelled_relations() for graph in graphs]):
        table = membership(sets)
        channels.append((table @ table.T).fill_diagonal_(0))
    return torch.stack(channels, -1)


def normalized(edges: Tensor, normalization: str = "row-column") -> Tensor:
    r"""Return edge features, shape [..., n, n, l], at least 0, each channel normalised over its rows and columns.

    .. math::
        \tilde E_{ij} = \hat E_{ij} / \sum_k \hat E_{ik}, \qquad
        E_{ij} = \tilde E_{ij} / \sum_v \tilde E_{vj} \quad\text{(row-column)} \quad\text{or}\quad
        E_{ij} = \sum_k \tilde E_{ik} \tilde E_{jk} / \sum_v \tilde E_{vk} \quad\text{(doubly-stochastic)}

    "row-column" follows G-RAG's text (section 3.2.2), "normalized on the first and second dimension, respectively".
    "doubly-stochastic" follows the paper that it cites (Gong and Cheng, EGNN, 2019), whose rows and columns both sum to 1; it
    gives nodes weights on themselves. The result is zero where a row or column is zero.

    >>> edges = torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]]).unsqueeze(-1)
    >>> normalized(edges)[0].flatten()
    tensor([0.0000, 0.5294, 0.3846])
    """
    choice("normalization", normalization, NORMALIZATIONS)
    rows = _shares(edges, -2)
    if normalization == "row-column":
        return _shares(rows, -3)
    return torch.einsum("...ikl,...jkl->...ijl", rows, _shares(rows, -3))


def _shares(values: Tensor, dimension: int) -> Tensor:
    total = values.sum(dimension, keepdim=True)
    return torch.where(total > 0, values / total.clamp(min=torch.finfo(values.dtype).tiny), 0)
