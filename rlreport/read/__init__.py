"""Read logs: convert every response to a row of numbers; re-read a sample with its texts."""
