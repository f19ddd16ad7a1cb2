"""Tools that run by themselves."""
