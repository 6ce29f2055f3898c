"""Compare a run with one or several other runs, from their response data; see docs/compare.md."""
