"""Packages that run without PyTorch: made, loaded, called."""
