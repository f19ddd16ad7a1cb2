"""cache_compile: a compiled method, recorded, and replayed without Dynamo."""
