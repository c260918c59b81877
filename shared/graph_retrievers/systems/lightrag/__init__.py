"""LightRAG (Guo et al., 2024): keywords of two levels, entities and relations, and the chunks that belong to them."""
