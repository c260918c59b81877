"""KAR's knowledge of a question written out over lists (Xia et al., NAACL 2025, section 3)."""


def knowledge(queries, rows, relations, nearest, similarity, most):
    """Documents and triples: `queries` are the question and its entities, `nearest` maps each to its document, or None.

    `rows` are (source, target), `relations` their names; `similarity` is that of each node with the question. Of the neighbours of
    each document the `most` similar ones are kept, of equal ones the lower.
    """
    entities = []
    for query in queries:
        document = nearest(query)
        if document is not None and document not in entities:
            entities.append(document)
    documents, triples = list(entities), set()
    for entity in entities:
        near = {b if a == entity else a for a, b in rows if entity in (a, b)} - {entity}
        kept = sorted(near, key=lambda node: (-similarity[node], node))[:most]
        linked = [n for n, (a, b) in enumerate(rows) if {a, b} - {entity} and entity in (a, b) and ({a, b} - {entity}) <= set(kept)]
        triples |= set(linked)
        documents += [node for node in kept if node not in documents]
    return documents, [(rows[n][0], relations[n], rows[n][1]) for n in sorted(triples)]
