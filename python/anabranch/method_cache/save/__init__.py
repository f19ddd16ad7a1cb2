"""Compiles a method with torch.compile, and records the compilation for other processes.
A start from the cache imports nothing of this wing.

Start with `compilation`.

compilation      calls torch.compile, and publishes the entry
recorder         follows a compilation and makes its recording
guards           reads Dynamo's guards: the values and types that a replay compares
code_hook        shows the code that Dynamo makes
parameter_fetch  removes from Dynamo's code the walks to parameters
aot_wrapper      translates AOTAutograd's wrapper around a graph
"""
