"""How a query meets a node: dense vectors, words, relevance models, language models."""
