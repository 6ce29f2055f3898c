"""Per-token and per-response figures, each formula in one place."""
