"""Pages of reports: views, tables and the data of their scripts, rendered with Jinja."""
