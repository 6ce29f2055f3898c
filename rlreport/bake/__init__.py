"""Renders pages: view models, templates, and the data in pages."""
