"""Access files, object stores, the cache, and processes of this and other machines."""
