"""Scores of queries with nodes: dense vectors, BM25, relevance models; and embedding and language models."""
