"""Tables by step, by prompt, by token and by environment."""
