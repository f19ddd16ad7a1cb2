"""Runs an entry that holds. Imports nothing of the compiler's front end.

Start with `replay`.

load         makes a Replay of an entry on disk
replay       makes the first call, and the function of later calls
linked_code  makes Dynamo's code a function over the globals of the method's module
graph_call   does what AOTAutograd's wrapper would do around the program
later_tiers  begins tiers for a method that was read
"""
