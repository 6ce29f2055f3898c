"""Output forms: folder, one file, mail, Markdown; fit to a size and published as a whole."""
