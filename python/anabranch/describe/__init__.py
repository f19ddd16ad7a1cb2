"""Describes an ATen graph as the JSON that the compiler reads.

docs/design/foundation.md, section 1, defines the format. Lowering is the compiler's:
this wing resolves items of lists and symbolic sizes, and finds memory that values share.
Start with `graph`.

graph                reads the nodes of a graph in order
description          the result: the JSON, and what callers of the program need to know
inputs               placeholders and constants, and ranges of frozen integers
own_operators        names the calls that the runtime runs itself
arguments            arguments of operator calls
regions/             subgraphs that operators run, and what follows sizes that the run decides
outputs              results of the graph
tensors              dtypes, shapes and strides
symbols              sizes as expressions
symbol_table         the symbols of a graph, and the range of each
small_sizes          shows that a graph computes sizes of zero and one like others
shape_checks         shapes that PyTorch checks only in eager mode
storages             replaces a view by its owner, for operators that read the owner's memory
aliases              results that share memory with inputs or other results
views                the views that each call makes of its results
auto_functionalized  calls of operators that write, as functionalization leaves them
writing_calls        describes these calls
effects              operators with effects, in the order of their tokens
written              views of inputs that the graph updates
"""
