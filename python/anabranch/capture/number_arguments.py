"""Converts Python numbers, which Dynamo passes as tensors, to the dtypes of the trace.

Dynamo traces the result of random.uniform() in PyTorch's default dtype, and passes it
in f64. A compiled graph takes only the dtype of the trace."""

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
    """Wraps `call`, a compiled graph, so that it takes the numbers that Dynamo passes.

    module          Dynamo's graph
    example_inputs  its inputs in the trace: they have the dtypes that `call` takes

    Returns `call` itself if no dtype can differ.
    """
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

    # The artefact of the graph, if PyTorch saves it, converts numbers by itself.
    converted.serialize = getattr(call, "serialize", None)  # type: ignore[attr-defined]
    return converted
