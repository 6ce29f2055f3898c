"""Log formats of other frameworks, converted to canonical rows."""
