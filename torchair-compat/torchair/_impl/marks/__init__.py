"""Scopes, events and printing: operators in a graph, and what becomes of them."""
