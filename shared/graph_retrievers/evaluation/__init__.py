"""Measuring retrievers: metrics, run files, a side-by-side harness, significance, reports and pictures."""
