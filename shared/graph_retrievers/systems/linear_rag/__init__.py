"""LinearRAG (Zhuang et al., 2026): entities reached from a question sentence by sentence, and a walk from them to passages."""
