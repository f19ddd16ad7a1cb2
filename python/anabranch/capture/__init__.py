"""Captures graphs: from a Dynamo graph to ATen graphs, cut around operators that have no
description.

AOTAutograd traces. This wing decides which operators stay whole, decomposes some of its
own way, and frees calls from work that is needed only once. Start with `aot`.

aot                 traces a Dynamo graph to ATen graphs
input_sources       names of inputs, and where their values come from
constants           frees calls from Dynamo's work for frozen weights
watched_weights     chooses the weights that a program watches for changes
whole_operators     the operators that the compiler lowers as a whole (generated)
kept_whole          operators that a trace keeps whole and `handmade` takes apart
region_updates      makes results of what a region writes into its arguments
composites          keeps composite operators whole while a model is traced
frames              has Dynamo take more into the graphs of this backend
recurrent/          computes recurrent layers by loops over time
byte_layers/        takes layers with weights of bytes into graphs
inlining            puts the operators of a region in the place of its calls
flex/               takes attention with a score function apart
splicing            puts a trace in the place of a node
handmade            completes nodes that a pass has made
decompositions/     decomposes operators in other ways than PyTorch does
complex_parts/      computes complex tensors as two real ones
scales/             reads scales of a dtype that no kernel has
number_arguments    gives Python numbers the dtype of the trace
traces/             what a trace is told before it begins, and what it is spared
sharing             compares how the arguments of calls share memory
partition           cuts a graph around operators that have no description
eager_graph         runs graphs in PyTorch
observer            lets `cache_compile` follow a compilation
quiet_code          removes from Dynamo's code what measures Dynamo
"""
