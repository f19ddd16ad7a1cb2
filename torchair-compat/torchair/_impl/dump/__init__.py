"""Writes graphs, values, tables and logs for people to read."""
