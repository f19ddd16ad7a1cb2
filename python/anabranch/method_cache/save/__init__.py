"""Compiles a method with torch.compile, and records the compilation for other processes.

    compilation        calls torch.compile, and publishes the entry
    recorder           follows the compilation and makes its Recording
    guards             Dynamo's guards, as values and types that a replay compares
    code_hook          the code that Dynamo makes
    parameter_fetch    Dynamo's code without the walks to parameters
    aot_wrapper        AOTAutograd's wrapper, as a Calling

A start from the cache imports none of these."""
