"""Where graphs come from: documents, links, metadata, triples, neighbours."""
