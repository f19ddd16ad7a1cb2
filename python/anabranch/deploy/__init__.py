"""Packages that run without PyTorch: writes, opens and calls them."""
