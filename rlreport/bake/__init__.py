"""Render the pages of reports from Jinja templates, with JSON data for their scripts."""
