"""Subgraphs around the entities of a question, which trained networks read: SubgraphRAG and GNN-RAG."""
