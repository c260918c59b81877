"""HippoRAG 2 (Gutierrez et al., 2025): facts that match the question, and a walk from them to passages."""
