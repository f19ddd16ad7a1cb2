"""Compiles a Dynamo graph as a CompilerConfig asks.

Start with `backend`, then `graph_compiler`.

backend         get_npu_backend, get_compiler and the Dynamo backends
fx_compiler     the compiler of one ATen graph as an object that can be patched
graph_compiler  compiles one ATen graph: passes, marks, dumps
joint           forward and backward as one graph
captures        the visible rules of captures
exporting       torchair.dynamo_export
gears           checks the gears of a graph as TorchAir does
graph_breaks    breaks the graph at operators that the environment names
passes          runs the user's passes, Inductor's and the fusions
patterns        register_replacement: the user's patterns
fusions         the built-in fusions
fusion_files    the files about fusions
noops           removes operators that return their argument
cat_buffers     writes the parts of a concatenation to their places
weight_blocks   makes products read a weight's FRACTAL_NZ blocks
stream_scopes   finds the streams of a graph
pass_log        logs what each pass changed
run_log         logs each run of a graph
unsupported     functions that have no meaning on this host
"""
