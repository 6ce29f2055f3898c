"""Reading logs: all responses become rows of numbers; some are read again with their texts."""
