"""From a description to an executable, through the caches on disk."""
