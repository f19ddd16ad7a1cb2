"""Says where each input of a graph comes from: an argument, a parameter, a buffer or a
constant."""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._dynamo.source import FloatTensorSource

from ..describe.description import InputSource

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class InputSources:
    """Where the arguments of the function that AOTAutograd traces come from. AOTAutograd
    names a tensor of the module, and counts the arguments of its graph from zero."""

    # The tensors that the module itself has. Dynamo makes all tensors arguments, but for
    # `torch._inductor.config.freezing`; other front ends leave them in the module.
    state: dict[str, InputSource] = dataclasses.field(default_factory=dict)
    arguments: list[InputSource] = dataclasses.field(default_factory=list)

    def __iter__(self) -> Iterator[InputSource]:
        return itertools.chain(self.state.values(), self.arguments)


def input_sources(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    freeze: bool,
    watch: bool = False,
) -> InputSources:
    """The sources of a Dynamo graph. Parameters and buffers are frozen with `freeze`,
    else watched with `watch`."""
    state = {
        name: _state(InputSource(name), kind, value, freeze, watch)
        for kind, named in (
            ("parameter", module.named_parameters(remove_duplicate=False)),
            ("buffer", module.named_buffers(remove_duplicate=False)),
        )
        for name, value in named
    }
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    arguments = [
        _dynamo_source(node, value, freeze, watch)
        for node, value in zip(placeholders, example_inputs)
    ]
    return InputSources(state, arguments)


def _dynamo_source(
    node: torch.fx.Node, value: Any, freeze: bool, watch: bool
) -> InputSource:
    # aot_compile leaves only the attribute.
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", getattr(node, "_dynamo_source", None))
    if source is None:
        return InputSource(str(node.target))
    found = InputSource(_label(source), expression=_name(source))
    # Dynamo passes a number whose value it does not fix as a tensor, which it makes for
    # each call.
    if isinstance(source, FloatTensorSource) or getattr(
        argument, "pass_arg_as_tensor", False
    ):
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return dataclasses.replace(found, number=is_float)
    if not isinstance(value, torch.Tensor):
        return found
    if isinstance(value, torch.nn.Parameter):
        return _state(found, "parameter", value, freeze, watch)
    if source.guard_source.is_unspecialized_nn_module():
        return _state(found, "buffer", value, freeze, watch)
    return found


def _state(
    source: InputSource, kind: str, value: torch.Tensor, freeze: bool, watch: bool
) -> InputSource:
    """The source of a value of a module: a parameter or a buffer, with its tensor if it
    is frozen or watched."""
    source = dataclasses.replace(source, kind=kind)
    if freeze:
        source = dataclasses.replace(source, constant=value.detach())
    elif watch:
        source = dataclasses.replace(source, watched=True)
    else:
        return source
    return dataclasses.replace(source, owner=weakref.ref(value))


def _label(source: Any) -> str:
    """The name that a user knows a value by: the parameter at
    `L['self']._modules['fc']._parameters['weight']` is `fc.weight`."""
    # Dynamo names a module that is compiled by itself "fn".
    return _path(source).removeprefix("self.").removeprefix("fn.")


def _path(source: Any) -> str:
    """The dotted name of a source, from the steps that lead to it. Each step has its
    `base`."""
    base = getattr(source, "base", None)
    if base is None:
        return getattr(source, "local_name", None) or _name(source)
    if getattr(base, "member", None) in ("_modules", "_parameters", "_buffers"):
        return f"{_path(base.base)}.{source.index}"
    name, prefix = _name(source), _name(base)
    return _path(base) + name[len(prefix) :] if name.startswith(prefix) else name


def _name(source: Any) -> str:
    return source.name if isinstance(source.name, str) else source.name()


def graph_sources(
    graph: torch.fx.GraphModule, sources: InputSources
) -> list[InputSource]:
    """The sources of a graph's placeholders.

    AOTAutograd may add, drop and reorder arguments, and says so in descriptors. A
    placeholder without a descriptor is an ordinary input. Tensors that the graph writes
    to are never frozen or watched, nor are tensors that share memory with them.
    """
    written = {
        node.args[0]
        for node in graph.graph.nodes
        if node.op == "call_function" and node.target is aten.copy_.default
    }
    memory: set[int] = set()
    found = []
    for node in graph.graph.nodes:
        if node.op != "placeholder":
            continue
        source = _source_of(node.meta.get("desc"), sources) or InputSource(
            str(node.target)
        )
        found.append(source)
        if node in written and (value := _tensor(source)) is not None:
            memory.add(_memory(value))
    return [
        source.as_input()
        if (value := _tensor(source)) is not None and _memory(value) in memory
        else source
        for source in found
    ]


def _source_of(desc: Any, sources: InputSources) -> InputSource | None:
    """The source that AOTAutograd's descriptor of a placeholder names: a tensor of the
    module, an argument, or a tensor inside one that is a tensor subclass."""
    index, target = getattr(desc, "idx", None), getattr(desc, "target", None)
    if isinstance(index, int):
        return sources.arguments[index] if index < len(sources.arguments) else None
    if isinstance(target, str):
        return sources.state.get(target)
    name, base = getattr(desc, "attr", None), getattr(desc, "base", None)
    outer = _source_of(base, sources) if base is not None else None
    if outer is None or not isinstance(name, str):
        return None
    label = f"{outer.label}.{name}"
    whole = outer.owner() if outer.owner is not None else None
    inner = getattr(whole, name, None)
    if _tensor(outer) is None or not isinstance(inner, torch.Tensor):
        return InputSource(label, outer.kind)
    return _state(
        InputSource(label), outer.kind, inner, not outer.watched, outer.watched
    )


def _tensor(source: InputSource) -> torch.Tensor | None:
    """The tensor of a frozen or a watched source."""
    if source.constant is not None:
        return source.constant
    return source.owner() if source.owner is not None else None


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata
