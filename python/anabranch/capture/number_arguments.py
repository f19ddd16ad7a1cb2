"""Converts Python numbers, which Dynamo passes as tensors, to the dtypes of the trace.

Dynamo traces the result of random.uniform() in PyTorch's default dtype, and passes it
in f64. A compiled graph takes only the dtype of the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx


def traced_dtypes(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> dict[torch.fx.Node, torch.dtype]:
    """The placeholders of numbers that Dynamo passes in another dtype than that of the
    trace.

    module          Dynamo's graph, before a trace that may take placeholders away
    example_inputs  its inputs in the trace: they have the dtypes that a compiled graph
                    takes
    """
    return {
        node: example.dtype
        for node, example in zip(
            module.graph.find_nodes(op="placeholder"), example_inputs
        )
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        if isinstance(example, torch.Tensor) and example.is_floating_point()
        if example.dtype is not torch.float64
    }


def as_traced(
    call: Callable[..., Any],
    module: torch.fx.GraphModule,
    dtypes: Mapping[torch.fx.Node, torch.dtype],
) -> Callable[..., Any]:
    """Wraps `call`, a compiled graph, so that it takes the numbers that Dynamo passes.

    module  Dynamo's graph: calls pass what its placeholders are now
    dtypes  what `traced_dtypes` found

    Returns `call` itself if no dtype can differ.
    """
    if not dtypes:
        return call
    inputs = enumerate(module.graph.find_nodes(op="placeholder"))
    places = {place: dtypes[node] for place, node in inputs if node in dtypes}

    def converted(*arguments: Any) -> Any:
        values = list(arguments)
        for place, dtype in places.items():
            values[place] = values[place].to(dtype)
        return call(*values)

    # The artefact of the graph, if PyTorch saves it, converts numbers by itself.
    converted.serialize = getattr(call, "serialize", None)  # type: ignore[attr-defined]
    return converted
