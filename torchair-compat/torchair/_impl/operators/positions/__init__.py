"""Rotary embeddings of positions."""
