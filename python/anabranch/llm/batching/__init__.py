"""Serves requests of different lengths over one pool of keys and values: docs/llm.md.

Start with `scheduler`.

scheduler    lets requests join and leave between two steps
batch_steps  the compiled steps of a batch
paged_cache  the pool of keys and values
blocks       which blocks of the pool are free
masks        attention masks of rows at different positions
sampler      the next token of one request
"""
