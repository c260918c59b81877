"""GNN-RAG's network, its answers and their paths written out (Mavromatis and Karypis, 2024; the network is that of ReaRev).

A graph is a list of rows (source, relation, target), its nodes are 0 to n - 1. Vectors are lists; weights are those of a network by
their names, as nested lists.
"""

from math import exp, log


def around(topics, rows, hops, most, similarity):
    """The nodes at most `hops` edges from a topic, with the node before each, and the numbers of the rows read among them.

    A ring of nodes for which there is no room has its most similar ones.
    """
    before = dict.fromkeys(sorted(topics), None)
    ring, read = sorted(before), set()
    for _ in range(hops):
        new = {}
        for node in ring:
            for number, (a, _, b) in enumerate(rows):
                if node in (a, b):
                    read.add(number)
                    other = b if node == a else a
                    if other not in before:
                        new.setdefault(other, node)
        room = max(most - len(before), 0)
        ring = sorted(sorted(new, key=lambda node: (-round(similarity[node], 6), node))[:room])
        before |= {node: new[node] for node in ring}
    return before, [number for number in sorted(read) if rows[number][0] in before and rows[number][2] in before]


def relu(vector):
    return [max(value, 0.0) for value in vector]


def plus(*vectors):
    return [sum(values) for values in zip(*vectors, strict=True)]


def times(one, other):
    return [a * b for a, b in zip(one, other, strict=True)]


def linear(weights, name, vector):
    found = [sum(times(row, vector)) for row in weights[f"{name}.weight"]]
    return plus(found, weights[f"{name}.bias"]) if f"{name}.bias" in weights else found


def softmax(values):
    top = max(values)
    shares = [exp(value - top) for value in values]
    return [share / sum(shares) for share in shares]


def instructions_of(weights, question, count):
    before, found = [0.0] * len(question), []
    for k in range(count):
        own = linear(weights, f"asked.{k}", question)
        read = before + own + [a - b for a, b in zip(own, before, strict=True)] + times(own, before)
        before = linear(weights, "instruct", read)
        found.append(before)
    return found


def reset(weights, instruction, k, topics):
    read = instruction + topics + [a - b for a, b in zip(instruction, topics, strict=True)]
    gate = [1 / (1 + exp(-value)) for value in linear(weights, f"gate.{k}", read)]
    new = linear(weights, f"change.{k}", read)
    return [g * a + (1 - g) * b for g, a, b in zip(gate, new, instruction, strict=True)]


def probabilities(weights, question, vectors, nodes, rows, topics, instructions, layers, rounds):
    """The probability of each node, by its number; `vectors` has a pair for each relation, along it and against it."""
    # Numbers of a vector of unit length are stretched to about 1.
    question = linear(weights, "read", [len(question) ** 0.5 * value for value in question])
    told = {
        name: [linear(weights, "read", [len(vector) ** 0.5 * value for value in vector]) for vector in pair]
        for name, pair in {**vectors, "itself": weights["itself"]}.items()
    }
    rows = [*rows, *((node, "itself", node) for node in nodes)]
    width = len(question)
    h = {}
    for node in nodes:
        total = [0.0] * width
        for a, name, b in rows:
            for end in (a, b):
                if end == node:
                    total = plus(total, linear(weights, "start", told[name][0]))
        h[node] = relu(total)
    now = instructions_of(weights, question, instructions)
    for turn in range(rounds):
        if turn:
            seen = plus([0.0] * width, *(h[node] for node in topics))
            now = [reset(weights, own, k, seen) for k, own in enumerate(now)]
        p = {node: 1 / len(topics) if node in topics else 0.0 for node in nodes}
        for layer in range(layers):
            after = {}
            for node in nodes:
                read = list(h[node])
                for own in now:
                    for way in (0, 1):
                        total = [0.0] * width
                        for a, name, b in rows:
                            near, far = (a, b) if way == 0 else (b, a)
                            if far == node:
                                message = relu(times(linear(weights, f"relate.{layer}", told[name][way]), own))
                                total = plus(total, [p[near] * value for value in message])
                        read += total
                after[node] = relu(linear(weights, f"gather.{layer}", read))
            h = after
            p = dict(zip(nodes, softmax([linear(weights, "score", h[node])[0] for node in nodes]), strict=True))
    return p


def divergence(p, answers):
    """The Kullback-Leibler divergence of the uniform distribution over the answers from p."""
    return sum((log(1 / len(answers)) - log(p[node])) / len(answers) for node in answers)


def ranked(scores, before, mass=None, most=2000):
    """Nodes with scores: the answers, best first, until they hold the mass; then other nodes on their paths."""
    order = sorted(scores, key=lambda node: (-round(scores[node], 6), node))
    answers, total = [], 0.0
    for node in order:
        if before[node] is None:
            continue
        if mass is not None and (total > mass or scores[node] < (1 - mass) / most):
            break
        answers.append(node)
        total += scores[node]
    on_paths = set()
    for node in answers:
        while node is not None:
            on_paths.add(node)
            node = before[node]
    return answers + [node for node in order if node in on_paths and node not in answers]
