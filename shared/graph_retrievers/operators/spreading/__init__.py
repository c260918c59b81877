"""Query-aware spreading activation (Glybovets and Makarov, 2026): seeds, gated propagation, chains, passages."""

from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking, extract_entities
from graph_retrievers.operators.spreading.passages import PassageGathering
from graph_retrievers.operators.spreading.propagation import GatedPropagation, cosine_gate

__all__ = ["ChainSearch", "EntityLinking", "GatedPropagation", "PassageGathering", "cosine_gate", "extract_entities"]
