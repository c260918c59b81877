"""Query-aware spreading activation (Glybovets and Makarov, 2026): seeds, gated propagation, chains, passages."""

from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.passages import PassageGathering
from graph_retrievers.systems.spreading.propagation import GatedPropagation

__all__ = ["ChainSearch", "EntityLinking", "GatedPropagation", "PassageGathering"]
