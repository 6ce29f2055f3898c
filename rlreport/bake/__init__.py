"""Bakes pages: view models, templates, and the data they carry."""
