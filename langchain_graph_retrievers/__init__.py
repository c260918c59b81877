"""Graph retrievers as classes of the framework."""
