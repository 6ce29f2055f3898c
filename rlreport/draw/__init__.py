"""Draws charts: Vega-Lite specifications and their baked SVG."""
