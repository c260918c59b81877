"""G-RAG, graph-based reranking (Dong et al., 2024): document graphs, networks, the operator, training.

GRAG of Hu et al. (2025), which searches ego graphs, is another paper: :mod:`graph_retrievers.systems.ego_grag`.
"""
