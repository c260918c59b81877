"""G-RAG, graph-based reranking (Dong et al., 2024): document graphs, networks, the operator, training."""
