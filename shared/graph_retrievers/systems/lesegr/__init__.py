"""LeSeGR, lexical-semantic graph retrieval (Hu et al., "CG-RAG", 2025): model, search, training."""
