"""Runs an entry that holds, without Dynamo.

    load               an entry of the cache becomes a Replay
    replay             the first call, and the function for later calls
    linked_code        Dynamo's code as a function over the globals of the method's module
    graph_call         what AOTAutograd's wrapper would do around the program
    later_tiers        programs for more sizes, compiled in the background

It imports nothing of the compiler's front end."""
