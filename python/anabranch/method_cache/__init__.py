"""cache_compile: records a compiled method, and replays it in a later process without
Dynamo."""
