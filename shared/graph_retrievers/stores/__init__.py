"""Graphs outside memory: databases that answer the same requests as an index."""
