"""Serves requests of different lengths over one pool of keys and values: docs/llm.md."""
