"""What a run was: its configuration, without secrets, and whether it is one run at all."""
