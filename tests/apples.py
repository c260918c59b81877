"""Six texts of two words, with vectors and a query whose scores can be read off."""

import numpy as np

from graph_retrievers import GraphIndex

TEXTS = ["apple pie", "apple tree", "tree house", "house cat", "cat food", "apple apple"]
VECTORS = np.eye(6, dtype=np.float32)
QUERY = [0.0, 1.0, 0.5, 0.0, 0.0, 0.25]


def embed(texts):
    return [QUERY for _ in texts]


def index(device="cpu", **options):
    options = {"vectors": VECTORS, "embedding": embed} | options
    return GraphIndex.from_texts(TEXTS, edges=[("0", "1"), ("1", "2"), ("3", "4")], device=device, **options)


def ids(hits):
    return [hit.id for hit in hits]
