"""GNN-RAG: answers that a graph neural network finds around the entities of a question (Mavromatis and Karypis, 2024)."""
