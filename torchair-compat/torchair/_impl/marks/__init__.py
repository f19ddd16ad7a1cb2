"""The operators of scopes, events and printing, and their translation to the compiler's
marks.

Start with `operators`, then `resolve`.

operators      torch.ops.air: the marks in a graph
resolve        translates them to the compiler's marks
npu_streams    translates streams and events of torch.npu
super_options  checks the options of super_kernel scopes
attributes     attributes of operators by their names in dumps
printing       npu_print
"""
