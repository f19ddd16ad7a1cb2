"""Converters of operators, and the IR nodes that they make.

Start with `converters`.

converters       registers converters and calls them for the nodes of a graph
calls            calls one converter and checks its results
writing_calls    calls converters of operators that write to their inputs
returned_writes  replaces operators that return the arguments that they write
automatic        makes a converter from the IR operator of the same name
nodes            the functions by which converters make IR nodes
definitions      what an IR operator is
operators        the IR operators that this host computes
attributes       attributes of IR nodes
types            numbers of dtypes and formats
"""
