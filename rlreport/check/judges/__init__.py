"""The checks, by what they judge."""
