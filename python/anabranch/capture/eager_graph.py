"""Graphs that PyTorch runs instead of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..describe.description import InputSource
from ..saved import graph as saved_graph
from ..saved import saving
from ..saved.pytorch_graph import runner

# A graph's printed code spells a complex constant as Python does: `(1+nanj)`. PyTorch
# defines `nan` and `inf` for it, and not their products with the imaginary unit.
for _name in ("nan", "inf"):
    torch.fx.graph._register_custom_builtin(
        f"{_name}j",
        f"{_name}j = complex(0.0, float('{_name}'))",
        complex(0, float(_name)),
    )


def run_eagerly(
    module: torch.fx.GraphModule, sources: Sequence[InputSource] = ()
) -> Callable[..., Any]:
    """Runs the graph in PyTorch, by AOTAutograd's boxed calling convention: the callee
    empties its list of arguments. `sources` say where these come from."""
    call = runner(module)
    if not saving.is_on():
        return call
    return saved_graph.of_pytorch(module, sources, call)


def misdescribed_operator(graph: torch.fx.GraphModule) -> str | None:
    """The name of an operator of a backward graph whose arguments have other shapes
    than the trace says; None if there is none.

    PyTorch's meta function of `_embedding_bag` misses that the CPU's kernel has a fast
    path for bf16, which returns an empty tensor.
    """
    nodes = graph.graph.nodes
    values = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
    if not any(getattr(value, "dtype", None) == torch.bfloat16 for value in values):
        return None
    for node in nodes:
        if str(node.target).startswith("aten._embedding_bag"):
            return str(node.target)
    return None
