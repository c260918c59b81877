"""LinearRAG (Zhuang et al., 2026): entities that a question leads to sentence by sentence, and a walk from them to passages."""
