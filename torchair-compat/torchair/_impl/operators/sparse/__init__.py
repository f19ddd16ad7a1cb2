"""Attention to few keys: an indexer chooses them, and attention reads them alone."""
