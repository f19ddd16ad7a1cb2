"""cache_compile: records a compiled method, and replays it in a later process without
Dynamo.

Start with `cached_method`; docs/design/cache.md, "Level 2", describes an entry.

cached_method    cache_compile: reads the program of a method, or compiles and saves it
recorder         follows a compilation and makes its recording
recording        writes, reads and checks a recording on disk
parameter_fetch  removes from Dynamo's code the walks to parameters
aot_wrapper      translates AOTAutograd's wrapper around a graph
replay           calls a recorded method without Dynamo
calling          turns the arguments of a call into the program's
module_state     compares the module's values with those of the trace
argument_check   compares arguments and expressions with those of the trace
global_state     PyTorch's modes that a trace depends on
source           parses Dynamo's names of sources
dynamo           all that this package knows of Dynamo's internals
bytecode         CPython's code objects: saves, renames and hashes them
later_tiers      begins tiers for a method that was read
entry_text       prints an entry as text
"""
