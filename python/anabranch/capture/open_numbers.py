"""Numbers that Dynamo passes as tensors of no dimension.

Dynamo traces what random.uniform() returns in PyTorch's default dtype, and passes it
in f64. A compiled graph takes the dtype that was traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx


def as_traced(
    call: Callable[..., Any],
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
) -> Callable[..., Any]:
    """`call` for arguments as Dynamo passes them, where `example_inputs` are what it
    traced. `call` itself if no dtype can differ."""
    dtypes = {
        place: example.dtype
        for place, (node, example) in enumerate(
            zip(module.graph.find_nodes(op="placeholder"), example_inputs)
        )
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        if isinstance(example, torch.Tensor) and example.is_floating_point()
        if example.dtype is not torch.float64
    }
    if not dtypes:
        return call

    def converted(*arguments: Any) -> Any:
        values = list(arguments)
        for place, dtype in dtypes.items():
            values[place] = values[place].to(dtype)
        return call(*values)

    return converted
