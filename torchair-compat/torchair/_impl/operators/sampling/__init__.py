"""Filters logits, and chooses tokens."""
