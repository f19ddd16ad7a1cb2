"""Finds the entry of a method and decides whether it still holds.

    entry_key          everything that an entry depends on, as one hash
    comparisons        all that one recording compares, at the first and at later calls
    same_value         the rule: when is a value what the trace saw?
    module_state       values that the module, its globals and its function hold
    argument_check     values that only an expression over arguments can reach
    argument_sizes     sizes and strides of the graph's arguments
    global_state       PyTorch's modes

A value that does not hold is a miss at the first call, and drops the entry at a later one
(`Stale`)."""
