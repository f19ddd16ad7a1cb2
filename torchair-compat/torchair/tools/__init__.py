"""Tools for files that torchair writes."""
