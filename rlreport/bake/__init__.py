"""Render the pages of reports: view models, Jinja templates, and data for scripts."""
