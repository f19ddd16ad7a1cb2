"""cache_compile: records a compiled method, and replays it in a later process without
Dynamo. Start with `cached_method`; docs/design/cache.md, "Level 2", has the contract.

    cached_method      the first call, and what becomes of a method whose entry fails
    policy             what a front end decides: folders, keys, messages
    lookup/            finds the entry and decides whether it still holds
    start/             runs an entry
    save/              compiles and records

Both `start` and `save` know the saved form:

    recording          one compilation as it is saved
    calling            how the graph's arguments and results become the program's
    source             Dynamo's names of values
    bytecode           code objects and constants
    code_globals       how to make the globals that Dynamo's code reads
    dynamo_helpers     stands in for the helpers that Dynamo's code calls
    entry_text         an entry as text, for people"""
