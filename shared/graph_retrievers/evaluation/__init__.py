"""Measuring retrievers: metrics, run files, a side-by-side harness, tables and significance."""
