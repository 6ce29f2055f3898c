"""Comparison of a run with another, from their response data; see docs/compare.md."""
