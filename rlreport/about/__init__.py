"""Read a run's configuration without its secrets, and detect logs of several runs."""
