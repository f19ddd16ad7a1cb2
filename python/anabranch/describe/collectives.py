"""Collectives of torch.distributed in a graph: each waits for its own result.

PyTorch's are two operators: one starts the transfer, and a wait for it finds it by
the tensor's memory. The program gives memory on without the tensor around it, and
such a wait would find nothing. So each collective gets a namesake in the library
`anabranch_c10d` that waits before it returns.
"""

from __future__ import annotations

import functools

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

__all__ = ["NAMESPACE", "is_wait", "waiting"]

NAMESPACE = "_c10d_functional"

_library = torch.library.Library("anabranch_c10d", "DEF")


def is_wait(target: OpOverload) -> bool:
    return target.namespace == NAMESPACE and "wait_tensor" in target._schema.name


@functools.cache
def waiting(target: OpOverload) -> OpOverload:
    """The namesake of a collective that gives a new tensor, or several."""
    schema = str(target._schema).partition("::")[2]
    signature = schema.partition("(")[0]

    def run(*args: object, **kwargs: object) -> object:
        wait = torch.ops._c10d_functional.wait_tensor
        return tree_map_only(torch.Tensor, wait, target(*args, **kwargs))

    _library.define(schema)
    _library.impl(signature, run, "CompositeExplicitAutograd")
    name, _, overload = signature.partition(".")
    packet = getattr(torch.ops.anabranch_c10d, name)
    return getattr(packet, overload or "default")
