"""Older names of torchair's modules."""
