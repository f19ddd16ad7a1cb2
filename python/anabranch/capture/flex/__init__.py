"""Computes attention with a score function (`flex_attention`) by operators of the graph.
Start with `calls`.

calls        replaces the calls in a graph
attention    the operators of a call
positions    evaluates a function of one position at all positions
linear       finds what a score function multiplies, adds and hides
"""
