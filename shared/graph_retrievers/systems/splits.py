"""The questions of a dataset from which a retriever learns."""

from __future__ import annotations

from graph_retrievers.datasets import Dataset
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.learning.labelled import LabelledQuery


def labelled_queries(dataset: Dataset, index: GraphIndex, learner: str) -> tuple[list[LabelledQuery], list[LabelledQuery]]:
    """Return the questions of the splits "train" and "dev"; InvalidArgumentError, with the learner's name, if one has none."""
    row = index.graph.row
    train, dev = (
        [LabelledQuery(query.text, tuple(map(row, query.gold))) for query in dataset.queries if query.split == split]
        for split in ("train", "dev")
    )
    if not train or not dev:
        counts = f"{len(train)} train and {len(dev)} dev queries"
        raise InvalidArgumentError(f"{dataset.name} has {counts}; {learner} learns from both.")
    return train, dev
