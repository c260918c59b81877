"""Trajectory reranker, O_gm: candidates scored by how the traversal reached them (MoR, section 3.3 and appendix B.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from graph_retrievers.arguments import positive
from graph_retrievers.cache import Cache
from graph_retrievers.errors import DimensionMismatchError, MissingSignalError
from graph_retrievers.learning.checkpoint import read_weights, restored
from graph_retrievers.learning.scores import check_scores
from graph_retrievers.operators.mor.matching import TextMatching
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.embedding import as_embedding, check_vectors

__all__ = ["Trajectories", "TrajectoryReranker", "TrajectoryScorer"]

_TEXT, _STRUCTURE, _PADDING = 0, 1, 2


@dataclass(frozen=True)
class Trajectories:
    """What the reranker reads of the trajectories of a ranking, with L nodes of each, padded at the left."""

    text: Tensor  # [B, K, L + 1], textual fingerprint: similarity of each node to the query, and the score of the candidate
    patterns: list[tuple[str, ...]]  # distinct sequences of node types
    pattern: Tensor  # [B, K], structural fingerprint: a position in patterns
    identifier: Tensor  # [B, K, L], traversal identifier: 0 found by text, 1 by structure, 2 padding


class TrajectoryScorer(nn.Module):
    r"""The network of the structure-aware reranker.

    .. math:: s = W_2 (W_1 [\mathrm{ReLU}(W_s\,SF); \mathrm{ReLU}(W_t\,TF); \mathrm{ReLU}(E[TI])] + b_1) + b_2

    with SF the structural fingerprint as a text vector, TF the textual fingerprint and TI the traversal identifier.

    Parameters
    ----------
    length : int, default 3
        Nodes of a trajectory that are read.
    structure_width : int, default 768
        Width of the text vectors of the structural fingerprint.
    hidden : int, default 256
        Width of each part.

    Notes
    -----
    As published, the two last layers have no activation between them and the first of them has one output, so that the head is
    one affine map (the paper says "two fully connected layers"). Parameter names are those of the published weights.
    """

    def __init__(self, length: int = 3, structure_width: int = 768, hidden: int = 256) -> None:
        super().__init__()
        self.length, self.hidden = positive("length", length), positive("hidden", hidden)
        self.structure_width = positive("structure_width", structure_width)
        self.score_vec_enc = nn.Linear(length + 1, hidden)
        self.text_emb_enc = nn.Linear(structure_width, hidden)
        self.symb_enc = nn.Embedding(3, hidden)
        self.fc1 = nn.Linear(hidden * (2 + length), 1)
        self.fc2 = nn.Linear(1, 1)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Tensor]) -> TrajectoryScorer:
        """Return the network of some weights, which give its sizes; InvalidArgumentError for weights of another network."""

        def make() -> TrajectoryScorer:
            hidden, entries = weights["score_vec_enc.weight"].shape
            return cls(entries - 1, weights["text_emb_enc.weight"].shape[1], hidden)

        return restored(make, weights, "a trajectory reranker")

    def forward(self, structure: Tensor, text: Tensor, identifier: Tensor) -> Tensor:
        """Return scores [...] of `structure` [..., structure_width], `text` [..., L + 1] and `identifier` [..., L], int64."""
        return self.score(torch.relu(self.text_emb_enc(structure)), text, identifier)

    def score(self, structure: Tensor, text: Tensor, identifier: Tensor) -> Tensor:
        """Return :meth:`forward` for a structural fingerprint that is encoded already, shape [..., hidden]."""
        symbols = torch.relu(self.symb_enc(identifier)).flatten(-2)
        whole = torch.cat([structure, torch.relu(self.score_vec_enc(text)), symbols], -1)
        return self.fc2(self.fc1(whole)).squeeze(-1)


class TrajectoryReranker(Operator):
    """Order the candidates of a mixed traversal by their trajectories.

    Parameters
    ----------
    scorer : TrajectoryScorer or Mapping of str to Tensor or str or Path
        The network, its weights, or a safetensors file of them (the published ones fit).
    embedding : object, optional
        Text embedding of the structural fingerprint ("padding movie person"), of the scorer's width (see
        :func:`~graph_retrievers.signals.embedding.as_embedding`); the index's own by default. The published weights need the
        mean of the last hidden states of bert-base-uncased, 768 wide.
    depth : int, optional
        Rerank the best this many of each list and drop the rest; all by default.
    node_only : bool, default False
        Read the last node of each trajectory alone (the paper's Table 3).
    matching : TextMatching, optional
        Textual similarity; by default BM25 if the index has it.

    Notes
    -----
    The textual fingerprint is that of the published code: a node that text matching found keeps its similarity to query and
    restriction, one reached by a step has that to the query alone (the paper's appendix B.2 says query and restriction for
    all). The identifier depends on the length of the trajectory alone, because only its first node can come from text.
    Trajectories longer than the network reads are cut at the start.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.operators import MixedTraversal
    >>> graph = CorpusGraph(["a", "b"], ["jazz film", "jazz club"], types=["movie", "place"])
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["jazz"])
    >>> reranker = TrajectoryReranker(TrajectoryScorer(length=2))
    >>> reranker.trajectories(queries, MixedTraversal()(queries)).patterns
    [('padding', 'movie'), ('padding', 'place')]
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self,
        scorer: TrajectoryScorer | Mapping[str, Tensor] | str | Path,
        *,
        embedding: Any = None,
        depth: int | None = None,
        node_only: bool = False,
        matching: TextMatching | None = None,
    ) -> None:
        if isinstance(scorer, (str, Path)):
            scorer = read_weights(scorer)
        self.scorer = scorer if isinstance(scorer, TrajectoryScorer) else TrajectoryScorer.of_weights(scorer)
        self.embedding = None if embedding is None else as_embedding(embedding)
        self.depth, self.node_only = None if depth is None else positive("depth", depth), node_only
        self.matching = matching or TextMatching()
        self._cache = Cache()

    @torch.inference_mode()
    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the candidates in the order of the network's scores; InvalidArgumentError if one is NaN or infinite."""
        ranking = ranking if self.depth is None else ranking.top(self.depth)
        if ranking.width == 0:
            return ranking
        features = self.trajectories(queries, ranking)
        scorer = self.scorer.to(ranking.nodes.device)
        structure = torch.relu(scorer.text_emb_enc(self.structure_vectors(queries, features.patterns)))
        scores = scorer.score(structure[features.pattern], features.text, features.identifier)
        check_scores(scores[ranking.nodes >= 0], "The reranker of MoR")
        return ranking.rescored(scores)

    def trajectories(self, queries: Queries, ranking: Ranking) -> Trajectories:
        """Return the trajectories of a ranking, of :class:`MixedTraversal` or another, as the network reads them."""
        length = self.scorer.length
        # One column more, so that the node before the last can be read in every case.
        full = pad(ranking.trails, (max(length - ranking.trails.shape[2], 0) + 1, 0), value=-1)
        reached = full[:, :, -2] >= 0
        first = (full >= 0) & pad(full[:, :, :-1] < 0, (1, 0), value=True)
        seen, first = full[:, :, -length:].clone(), first[:, :, -length:]
        if self.node_only:
            seen[:, :, :-1] = -1
        real = seen >= 0
        similarity = self._similarities(queries, seen, first, ranking.seed_scores)
        scores = ranking.scores.masked_fill(ranking.nodes < 0, 0.0)
        identifier = torch.where(real, torch.where(pad(real[:, :, :-1], (1, 0)), _STRUCTURE, _TEXT), _PADDING)
        if self.node_only:
            identifier[:, :, -1] = torch.where(reached, _STRUCTURE, _TEXT)
        names = queries.index.graph.type_names
        kinds = torch.where(real, queries.index.graph.node_types[seen.clamp(min=0)].long(), len(names))
        distinct, pattern = torch.unique(kinds.flatten(0, 1), dim=0, return_inverse=True)
        patterns = [tuple([*names, "padding"][kind] for kind in row) for row in distinct.tolist()]
        text = torch.cat([similarity, scores.unsqueeze(-1)], -1)
        return Trajectories(text, patterns, pattern.view(seen.shape[:2]), identifier)

    def _similarities(self, queries: Queries, seen: Tensor, first: Tensor, seed_scores: Tensor | None) -> Tensor:
        """Return the similarity of every node of every trajectory, 0 on pads: Tensor, shape [B, K, L]."""
        batch, column, place = (seen >= 0).nonzero(as_tuple=True)
        values = self.matching.pairs(queries, list(queries.texts), batch, seen[batch, column, place])
        if seed_scores is not None:
            known = seed_scores[batch, column]
            values = torch.where(first[batch, column, place] & ~torch.isnan(known), known, values)
        table = torch.zeros(seen.shape, device=seen.device)
        table[batch, column, place] = values
        return table

    def structure_vectors(self, queries: Queries, patterns: list[tuple[str, ...]]) -> Tensor:
        """Return the text vectors of sequences of node types: Tensor, shape [S, structure_width]; each is embedded once."""
        model = self.embedding or queries.index.embedding
        if model is None:
            raise MissingSignalError("The reranker reads node types through a text embedding; pass embedding=.")
        # The model is kept with its vectors, so that its id cannot be given to another.
        _, held = self._cache.get(id(model), lambda: (model, dict[tuple[str, ...], Tensor]()))
        new = [p for p in patterns if p not in held]
        if new:
            vectors = check_vectors(model.embed_documents([" ".join(p) for p in new]), len(new))
            if vectors.shape[1] != self.scorer.structure_width:
                raise DimensionMismatchError(
                    f"The embedding of node types is {vectors.shape[1]} wide, the reranker was trained on "
                    f"{self.scorer.structure_width}; pass the embedding it was trained with as embedding=."
                )
            held.update(zip(new, vectors, strict=True))
        return torch.stack([held[p] for p in patterns]).to(queries.index.device)
