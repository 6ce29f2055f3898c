"""The checks, grouped by topic."""
