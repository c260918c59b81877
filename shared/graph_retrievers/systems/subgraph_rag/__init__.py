"""SubgraphRAG: triples around the entities of a question, scored by a small network (Li, Miao and Li, ICLR 2025)."""
