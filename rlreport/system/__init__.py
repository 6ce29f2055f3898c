"""What the operating system and other machines offer: files, stores, a cache, processes."""
