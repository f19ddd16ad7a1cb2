"""Finds the entry of a method and decides whether it holds.

A value that the trace did not see is a miss at the first call, and drops the entry at a
later one. Start with `comparisons`.

entry_key       everything that an entry depends on, as one hash
comparisons     compares all that a recording depends on, at the first and at later calls
same_value      the rule: when a value is what the trace saw
module_state    compares values that the module, its globals and its function hold
argument_check  compares values that only an expression over arguments can reach
argument_sizes  compares sizes and strides of the graph's arguments
global_state    PyTorch's modes that a trace depends on
"""
