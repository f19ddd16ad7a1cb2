"""The options of CompilerConfig: the values that they take, and their effect on this host.

Start with `table`.

table   the options, one row each
kinds   the kinds of options, and the checks of their values
tree    groups of options
config  CompilerConfig, made from the table
flat    npugraph_ex.CompilerConfig
engine  the graph engine's options, and what does not fit a mode
"""
