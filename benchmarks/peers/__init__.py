"""Reading one log in four ways, each in a process of its own: time, peak memory, the same means."""
