"""HyDE, query decomposition and IRCoT written out over lists; `search` maps a text to ranked nodes."""


def hyde_vector(question, passages, embed):
    """Equation 8: the mean of the vectors of the question and of the N passages."""
    vectors = [embed(text) for text in (question, *passages)]
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def decomposition(question, parts, search, constant=60):
    """Nodes with the sum of 1 / (c + rank) over the question and its parts; ties to the lower node."""
    scores = {}
    for text in (question, *parts):
        for rank, node in enumerate(search(text), 1):
            scores[node] = scores.get(node, 0.0) + 1 / (constant + rank)
    return sorted(scores, key=lambda node: (-round(scores[node], 9), node)), scores


def ircot(question, reason, search, passages=4, budget=15, steps=8):
    """Section 3: `reason` maps the collected nodes and the sentences so far to the next sentence."""
    collected = search(question)[:passages][:budget]
    sentences = []
    for _ in range(steps):
        sentence = reason(list(collected), list(sentences))
        sentences.append(sentence)
        if "answer is" in sentence.lower():
            break
        collected += [node for node in search(sentence)[:passages] if node not in collected]
        collected = collected[:budget]
    return collected
