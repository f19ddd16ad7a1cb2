"""Writes graphs, values, tables and logs for people to read.

Start with `graph_dump`, then `picture`.

graph_dump      writes the dumps that debug.graph_dump asks for
picture         the graph of operators that dumps and logs show
picture_passes  edits a picture after optimisation
picture_trace   a trace of a picture, for the check of deadlocks
inputs          edits the inputs of a picture
writers         a picture as pbtxt, txt or py
debug_folder    the folder of TORCH_COMPILE_DEBUG=1
values          writes the values of a graph's nodes
summary         writes a table of a graph's operators
program_log     logs a compiled program
deadlock        finds collectives that may wait for each other
process         the rank of this process in names of files
"""
