"""The trainer's own metrics: found, read, and recognized by their roles."""
