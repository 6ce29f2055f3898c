"""Charts: Vega-Lite specifications and rendered SVG."""
