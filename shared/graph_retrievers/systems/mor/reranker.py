"""Trajectory reranker, O_gm: score candidates by how the traversal reached them (MoR, section 3.3 and appendix B.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.cache import Cache, Identity
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Request, Scores
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.learning.checkpoint import check_scores, read_weights, restored
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.seeding import seeded_weights
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.systems.mor.traversal import matching_signal

__all__ = ["TrajectoryReranker"]

_TEXT, _STRUCTURE, PADDING = 0, 1, 2

FEATURES = ("text", "structure", "identifier")
"""What the reranker can read of a trajectory: textual fingerprint TF, structural fingerprint SF, traversal identifier TI."""

RERANKER = "reranker"
"""The part of a checkpoint that has the reranker."""


@dataclass(frozen=True)
class Trajectories:
    """The reranker's inputs from the trajectories of K candidates of a question, with L nodes of each, padded on the left."""

    text: np.ndarray  # [K, L + 1], textual fingerprint: similarity of each node to the query, and the score of the candidate
    patterns: list[tuple[str, ...]]  # K, structural fingerprint: the types of the nodes
    identifier: np.ndarray  # [K, L], traversal identifier: 0 found by text, 1 by structure, 2 padding


class TrajectoryScorer(nn.Module):
    r"""The network of the structure-aware reranker.

    .. math:: s = W_2 (W_1 [\mathrm{ReLU}(W_s\,SF); \mathrm{ReLU}(W_t\,TF); \mathrm{ReLU}(E[TI])] + b_1) + b_2

    with SF the structural fingerprint as a text vector of `structure_width` numbers, TF the textual fingerprint and TI the
    traversal identifier; `length` nodes of a trajectory are read, and each part is `hidden` wide. `seed` is that of the weights
    before training. As published, the last two layers have no activation between them and the first of them has one output, so the
    head is a single affine map (the paper says "two fully connected layers"). Parameter names are those of the published weights.
    """

    def __init__(self, length: int = 3, structure_width: int = 768, hidden: int = 256, seed: int = 0) -> None:
        super().__init__()
        self.length, self.hidden = positive("length", length), positive("hidden", hidden)
        self.structure_width = positive("structure_width", structure_width)
        with seeded_weights(seed):
            self.score_vec_enc = nn.Linear(length + 1, hidden)
            self.text_emb_enc = nn.Linear(structure_width, hidden)
            self.symb_enc = nn.Embedding(3, hidden)
            self.fc1 = nn.Linear(hidden * (2 + length), 1)
            self.fc2 = nn.Linear(1, 1)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor]) -> TrajectoryScorer:
        """Return the network of some weights, which determine its sizes; InvalidArgumentError for weights of another network."""

        def make() -> TrajectoryScorer:
            hidden, entries = weights["score_vec_enc.weight"].shape
            return cls(entries - 1, weights["text_emb_enc.weight"].shape[1], hidden)

        return restored(make, weights, "a trajectory reranker")

    def forward(self, structure: Tensor, text: Tensor, identifier: Tensor) -> Tensor:
        """Return scores [...] of `structure` [..., structure_width], `text` [..., L + 1] and `identifier` [..., L], int64."""
        return self.score(torch.relu(self.text_emb_enc(structure)), text, identifier)

    def score(self, structure: Tensor, text: Tensor, identifier: Tensor) -> Tensor:
        """Return :meth:`forward` for a structural fingerprint that is already encoded, shape [..., hidden]."""
        symbols = torch.relu(self.symb_enc(identifier)).flatten(-2)
        whole = torch.cat([structure, torch.relu(self.score_vec_enc(text)), symbols], -1)
        return self.fc2(self.fc1(whole)).squeeze(-1)


def read_features(features: Sequence[str]) -> tuple[str, ...]:
    """Return the features of a reranker in the order of FEATURES; InvalidArgumentError unless they are some of these.

    >>> read_features(["identifier", "text"])
    ('text', 'identifier')
    """
    names = {choice("features", name, FEATURES) for name in strings("features", features)}
    if not names:
        raise InvalidArgumentError(f"features are empty; expected at least one of {', '.join(map(repr, FEATURES))}.")
    return tuple(name for name in FEATURES if name in names)


class TrajectoryReranker(Operator):
    """Order the candidates of a mixed traversal by their trajectories.

    Parameters
    ----------
    scorer : TrajectoryScorer or Mapping of str to Tensor or str or Path
        The network, its weights, or a safetensors file of them (the published ones fit).
    embedding : object, optional
        Text embedding of the structural fingerprint ("padding movie person"), of the scorer's width (see
        :func:`~graph_retrievers.signals.embedding_models.as_embedding`); the index's own by default. The published weights need the
        mean of the last hidden states of bert-base-uncased, 768 wide.
    depth : int, optional
        Number of nodes of each list to rerank; the rest is dropped. All by default.
    node_only : bool, default False
        Whether to read only the last node of each trajectory (the paper's Table 3).
    features : sequence of str, default ("text", "structure", "identifier")
        What is read of a trajectory: textual fingerprint, structural fingerprint, traversal identifier; fewer are the paper's
        ablation (Table 2). The others are the same for all candidates, so that they do not change the order. The network must
        have been trained with the same ones.
    matching : str, optional
        Signal of textual similarity; by default BM25 if the index has it.

    Notes
    -----
    The textual fingerprint is that of the published code: a node found by text matching keeps its similarity to query and
    restriction, a node reached by a step has its similarity to only the query (the paper's appendix B.2 says query and
    restriction for all). The identifier depends only on the length of the trajectory, because only its first node can come from
    text. Trajectories longer than the network reads are cut at the start.

    Examples
    --------
    >>> from graph_retrievers.operators import MixedTraversal, Pipeline
    >>> print(Pipeline(MixedTraversal(), TrajectoryReranker(TrajectoryScorer(length=2))).formula())
    O_vgs -> O_gm
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self,
        scorer: TrajectoryScorer | Mapping[str, Tensor] | str | Path,
        *,
        embedding: Any = None,
        depth: int | None = None,
        node_only: bool = False,
        features: Sequence[str] = FEATURES,
        matching: str | None = None,
    ) -> None:
        if isinstance(scorer, (str, Path)):
            scorer = read_weights(scorer)
        self.scorer = scorer if isinstance(scorer, TrajectoryScorer) else TrajectoryScorer.of_weights(scorer)
        self.embedding = None if embedding is None else as_embedding(embedding)
        self.depth, self.node_only = None if depth is None else positive("depth", depth), node_only
        self.features = read_features(features)
        self.matching = matching
        self._cache = Cache()

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the candidates in the order of the network's scores; InvalidArgumentError if one is NaN or infinite."""
        candidates = candidates.top(self.depth)
        if not len(candidates):
            return candidates
        trajectories = yield from self.trajectories(question, candidates)
        return candidates.rescored((yield TrajectoryScores(self, trajectories)))

    def trajectories(self, question: Question, candidates: Candidates) -> Algorithm[Trajectories]:
        """Return the trajectories of candidates from :class:`MixedTraversal` or another operator, as the network reads them."""
        length, width = self.scorer.length, candidates.trails.shape[1]
        # One column more, so that the node before the last can be read in every case.
        full = np.pad(candidates.trails, ((0, 0), (max(length - width, 0) + 1, 0)), constant_values=-1)
        rows = full[:, -length:].copy()
        if self.node_only:
            rows[:, :-1] = -1
        real = rows >= 0
        # Textual fingerprint: a first node that text matched keeps its similarity to query and restriction.
        similarity = np.zeros(rows.shape, np.float32)
        similarity[real] = yield Scores(rows[real], matching_signal(question, self.matching))
        first = (full >= 0) & (np.cumsum(full >= 0, 1) == 1)
        seed_scores = candidates.columns.get("seed_scores", np.full(len(candidates), np.nan))
        mask = first[:, -length:] & real & ~np.isnan(seed_scores)[:, None]
        similarity[mask] = seed_scores[mask.any(1)]
        # Structural fingerprint.
        kinds = np.full(rows.shape, "padding", object)
        kinds[real] = question.types(rows[real])
        # Traversal identifier: what has a node before it was reached by a step.
        after = np.pad(real[:, :-1], ((0, 0), (1, 0)))
        if self.node_only:
            after[:, -1] = full[:, -2] >= 0
        identifier = np.where(real, np.where(after, _STRUCTURE, _TEXT), PADDING)
        text = np.concatenate([similarity, candidates.scores[:, None].astype(np.float32)], 1)
        # Features that are not read are as where there is no node.
        if "text" not in self.features:
            text[:] = 0
        if "structure" not in self.features:
            kinds[:] = "padding"
        if "identifier" not in self.features:
            identifier[:] = PADDING
        return Trajectories(text, list(map(tuple, kinds.tolist())), identifier)

    def structure_vectors(self, index: Corpus, patterns: Sequence[tuple[str, ...]]) -> Tensor:
        """Return the text vectors of sequences of node types: Tensor, shape [S, structure_width]; each is embedded once."""
        model = self.embedding or index.embedding
        if model is None:
            raise MissingSignalError("The reranker reads node types through a text embedding; pass embedding=.")
        table, lock = self._cache.get(Identity(model), lambda: (dict[tuple[str, ...], Tensor](), Lock()))
        with lock:
            new = [p for p in patterns if p not in table]
            if new:
                vectors = embed_texts(model, [" ".join(p) for p in new], announce=False)
                if vectors.shape[1] != self.scorer.structure_width:
                    raise DimensionMismatchError(
                        f"The embedding of node types is {vectors.shape[1]} wide, the reranker was trained on "
                        f"{self.scorer.structure_width}; pass the embedding it was trained with as embedding=."
                    )
                table.update(zip(new, vectors, strict=True))
        return torch.stack([table[p] for p in patterns]).to(index.device)


@dataclass(frozen=True, eq=False)
class TrajectoryScores(Request):
    """The network's scores of trajectories: float32, shape [K]; InvalidArgumentError if one is NaN or infinite."""

    reads = "model"
    costly = True
    shared = ("reranker",)
    reranker: TrajectoryReranker
    trajectories: Trajectories

    @classmethod
    @torch.inference_mode()
    def together(cls, backend: Any, requests: Sequence[tuple[int, TrajectoryScores]]) -> list[np.ndarray]:
        """Return scores, one product for all questions."""
        index, reranker, parts = backend.queries.index, requests[0][1].reranker, [request.trajectories for _, request in requests]
        scorer = reranker.scorer.to(index.device)
        number: dict[tuple[str, ...], int] = {}
        pattern = [number.setdefault(kinds, len(number)) for part in parts for kinds in part.patterns]
        structure = torch.relu(scorer.text_emb_enc(reranker.structure_vectors(index, list(number))))
        text, identifier = (
            torch.from_numpy(np.concatenate([getattr(part, name) for part in parts])).to(index.device)
            for name in ("text", "identifier")
        )
        scores = scorer.score(structure[pattern], text, identifier)
        check_scores(scores, "The reranker of MoR")
        return np.split(scores.cpu().numpy(), np.cumsum([len(part.text) for part in parts])[:-1])
