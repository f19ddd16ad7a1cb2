"""Attention as training code calls it."""
