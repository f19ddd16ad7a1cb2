"""Saves a graph that PyTorch runs, whose calls may be compiled parts.

PyTorch's pickler of graphs takes operators and modules. A part is a function of this
process, so the graph that is saved calls a module in its place."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch.fx._graph_pickler import GraphPickler, Options

from .. import _C
from ..errors import SavedGraphError
from ..packages.function import Call


class PytorchGraph:
    """A graph of ATen operators. A function of this process that it calls has an
    attribute `saved_module`: a module that does the same, and that can be pickled."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module

    def start(self) -> Call:
        """A function of the graph's arguments, without compiling."""
        for part in self.module.modules():
            if isinstance(part, Startable):
                part.start()
        return runner(self.module)

    def __getstate__(self) -> bytes:
        module = _with_modules(self.module)
        try:
            return GraphPickler.dumps(module, Options(ops_filter=None))
        except Exception as error:
            raise SavedGraphError(
                f"PyTorch runs a part of the graph, and cannot save it: {error}"
            ) from error

    def __setstate__(self, state: bytes) -> None:
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        mode = FakeTensorMode(shape_env=ShapeEnv())
        module = GraphPickler.loads(state, mode)
        assert isinstance(module, torch.fx.GraphModule)
        module.recompile()
        self.module = module


class Startable(torch.nn.Module):
    """A module in a saved graph that has to be started in the process that loads it."""

    def start(self) -> None:
        raise NotImplementedError


def runner(module: torch.fx.GraphModule) -> Call:
    """Runs the graph in PyTorch, by AOTAutograd's boxed calling convention: the callee
    empties its list of arguments."""

    def call(arguments: list[Any]) -> Any:
        _C.check_may_run()
        values = list(arguments)
        arguments.clear()
        return module.forward(*values)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _with_modules(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy that calls modules in the place of functions of this process, without what
    the trace noted on its nodes."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    root = torch.nn.Module()
    for number, node in enumerate(module.graph.nodes):
        inner = getattr(node.target, "saved_module", None)
        if inner is None:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        else:
            root.add_module(f"called{number}", inner)
            arguments = torch.fx.map_arg(node.args, copies.__getitem__)
            copies[node] = graph.call_module(f"called{number}", arguments)
        copies[node].meta = {}
        if node.op in ("get_attr", "call_module"):
            _copy(module, root, str(node.target))
    return torch.fx.GraphModule(root, graph)


def _copy(source: torch.nn.Module, target: torch.nn.Module, name: str) -> None:
    """Gives `target` the value that `source` has under a dotted name."""
    *path, last = name.split(".")
    for part in path:
        if not hasattr(target, part):
            target.add_module(part, torch.nn.Module())
        source, target = getattr(source, part), getattr(target, part)
    setattr(target, last, getattr(source, last))
