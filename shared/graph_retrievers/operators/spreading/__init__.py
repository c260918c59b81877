"""Query-aware spreading activation (Glybovets and Makarov, 2026): seeds, gated propagation, chains, passages."""

from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking, extract_entities
from graph_retrievers.operators.spreading.passages import PassageGathering
from graph_retrievers.operators.spreading.propagation import GatedPropagation

__all__ = ["ChainSearch", "EntityLinking", "GatedPropagation", "PassageGathering", "extract_entities"]
