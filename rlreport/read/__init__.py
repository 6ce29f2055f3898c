"""Reading logs: every response becomes a row of numbers, and some are read back with their text."""
