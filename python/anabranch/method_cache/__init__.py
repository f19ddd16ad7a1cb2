"""cache_compile: records a compiled method, and replays it in a later process without
Dynamo.

Start with `cached_method`; docs/design/cache.md, "Level 2", describes an entry.

cached_method   the way of a method: its first call, and what follows if its entry fails
policy          what a front end decides: folders, keys, messages
lookup/         finds the entry and decides whether it holds
start/          runs an entry that holds
save/           compiles the method and records the compilation
recording       writes, reads and checks a compilation on disk
calling         how the graph's arguments and results become the program's
source          parses Dynamo's names of sources
bytecode        CPython's code objects: saves, renames and hashes them
code_globals    how another process makes the globals that Dynamo's code reads
dynamo_helpers  stands in for the helpers that Dynamo's code calls
entry_text      prints an entry as text
"""
