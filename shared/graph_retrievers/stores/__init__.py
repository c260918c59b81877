"""Graphs that live elsewhere: databases that answer the same questions as an index."""
