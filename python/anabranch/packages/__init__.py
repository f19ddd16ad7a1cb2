"""Makes an executable of a description, with the caches on disk."""
