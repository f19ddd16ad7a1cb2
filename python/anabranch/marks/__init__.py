"""The marks of a model that users make: streams, events, super kernels and gears.

Marks are annotations and side effects of the graph, so they survive every trace.
Start with `scope`.

scope          streams, waits and events, and their operators in a graph
super_kernel   super kernels and their options
gear_sizes     the sizes of `set_gears`, kept with a tensor
mark_order     checks that the marks of one graph fit together
unbroken       makes a graph break inside a scope an error
torch_streams  translates torch.Stream and torch.Event to these marks
"""
