"""Older names of modules."""
