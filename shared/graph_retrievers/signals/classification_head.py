"""Separate a sequence-classification model into its encoder and its head."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graph_retrievers.errors import ModelHeadError


class ClassificationHead:
    """The part of a model between the last hidden states of its encoder and its one logit.

    `steps` are applied in turn to the pooled latents. `pooling` makes one latent of the hidden states of a pair: "cls" takes the
    first token, "mean" the mean over all tokens. `sequence` says whether the first step expects a sequence, of which it reads the
    first token. Half-precision steps are copied to float32: a bfloat16 logit has 8 significant bits and would cause ties.
    """

    def __init__(self, steps: list[nn.Module], pooling: Literal["cls", "mean"], sequence: bool) -> None:
        self.pooling = pooling
        self._sequence = sequence
        self._steps = [
            copy.deepcopy(step).float() if any(p.dtype != torch.float32 for p in step.parameters()) else step for step in steps
        ]
        self.device = next(self._steps[-1].parameters()).device

    def __call__(self, latent: Tensor) -> Tensor:
        """Return the logit of each latent: shape [n], float32, from shape [n, d]."""
        out = latent.to(self.device, torch.float32)
        if self._sequence:
            out = out.unsqueeze(1)
        for step in self._steps:
            out = step(out)
        return out[..., 0]


def split_head(model: Any) -> ClassificationHead:
    """Return the head of a Hugging Face sequence-classification model; ModelHeadError if it is of another form.

    The known families, each with the latent taken *before* the whole head:

    ==========================================  =======================================
    BERT, ERNIE, MegatronBERT                   pooler (dense, tanh), classifier
    RoBERTa, XLM-R, CamemBERT, MPNet, ELECTRA   classifier (dense, activation, out_proj)
    DeBERTa, DeBERTa-v2                         context pooler, classifier
    DistilBERT                                  pre_classifier, ReLU, classifier
    ModernBERT                                  mean or first token; head, classifier
    ==========================================  =======================================
    """
    base: Any = model.base_model
    classifier: Any = getattr(model, "classifier", None)
    head: Any = getattr(model, "head", None)
    linear = isinstance(classifier, nn.Linear)
    pooler: Any = getattr(model, "pooler", None) or getattr(base, "pooler", None)
    if linear and hasattr(model, "pre_classifier"):
        return ClassificationHead([model.pre_classifier, nn.ReLU(), classifier], "cls", False)
    if linear and isinstance(head, nn.Module) and hasattr(model.config, "classifier_pooling"):
        return ClassificationHead([head, classifier], model.config.classifier_pooling, False)
    if linear and hasattr(pooler, "dense"):
        return ClassificationHead([pooler, classifier], "cls", True)
    if hasattr(classifier, "dense") and hasattr(classifier, "out_proj"):
        return ClassificationHead([classifier], "cls", True)
    raise unsplittable(model, "the form of its head is not known")


def unsplittable(model: Any, reason: str) -> ModelHeadError:
    """Return the error for a model that cannot be used as a cross-encoder here."""
    return ModelHeadError(
        f"{type(model).__name__} cannot be split into encoder and head: {reason}. Pass a sequence-classification model "
        "with one logit of the BERT, RoBERTa, XLM-R, ELECTRA, MPNet, DeBERTa, DistilBERT or ModernBERT family, or wrap "
        "the model in PairScorer, which needs scores only."
    )
