"""Collectives of torch.distributed that Dynamo does not trace by itself.

Start with `traced`.

traced  adds broadcast, send, recv and others to Dynamo's table
"""
