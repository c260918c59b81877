"""PathReranking: a relevance model that reads nodes with the paths that lead to them, and its training."""
