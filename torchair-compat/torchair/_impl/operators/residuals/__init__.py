"""Residual streams that are several, mixed by each layer."""
