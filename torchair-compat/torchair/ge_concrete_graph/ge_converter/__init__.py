"""Older modules that scripts import for their effect."""
