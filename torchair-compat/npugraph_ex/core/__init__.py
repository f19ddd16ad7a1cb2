"""npugraph_ex.core: the logger is in `utils`."""
