"""Translates the metadata of AOTAutograd's wrapper around a graph to a Calling, so that
a replay can do without the wrapper."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
import torch.fx

from ... import _C
from ...describe.description import Description
from ...describe.symbols import Unsupported, integer
from ...describe.views import Alias
from ..calling import Calling
from ..recording import NotCacheable
from .guards import name_of


def check_random(module: torch.fx.GraphModule) -> None:
    inputs = sum(node.op == "placeholder" for node in module.graph.nodes)
    for node in module.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node):
            raise RuntimeError(
                "Cache compile does not support operator that depend on RNG,"
                f" input index: {inputs}. The operator is {node.target}."
            )


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Whether an operator that may drop out elements drops none, and so is not random."""
    schema: Any = node.target
    for place, argument in enumerate(schema._schema.arguments):
        if argument.name in ("dropout_p", "train", "training"):
            value = node.kwargs.get(argument.name, argument.default_value)
            value = node.args[place] if place < len(node.args) else value
            return not value
    return False


def argument_positions(module: torch.fx.GraphModule) -> list[int]:
    """For each placeholder of AOTAutograd's graph: the position of its argument in
    Dynamo's graph."""
    found = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        described = node.meta.get("desc")
        if type(described).__name__ != "PlainAOTInput":
            raise NotCacheable(f"{node.name} is no argument of the traced function")
        found.append(described.idx)
    return found


def calling(
    described: Description,
    arguments: list[int],
    metadata: Any,
    module: torch.fx.GraphModule,
) -> Calling:
    """The Calling of a graph whose placeholders are these arguments of Dynamo's graph.
    NotCacheable: the wrapper does more than a Calling can say."""
    if metadata is None:
        raise NotCacheable("AOTAutograd does not say what its wrapper does")
    if metadata.num_mutated_inp_runtime_indices or metadata.tokens:
        raise NotCacheable("it changes its inputs outside of the graph")
    if metadata.grad_enabled_mutation is not None:
        raise NotCacheable("it leaves gradients enabled or disabled")
    if described.awaited:
        raise NotCacheable("it waits for a collective of another graph")
    if metadata.num_intermediate_bases:
        raise NotCacheable("outputs share memory that only autograd knows")
    for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta):
        if type(meta).__name__ != "PlainTensorMeta":
            raise NotCacheable("a tensor subclass is among inputs and outputs")
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    positions = {node.name: index for node, index in zip(nodes, arguments)}
    guards, by_source = _shape_guards(nodes, arguments)
    return Calling(
        arguments=len(metadata.input_info),
        passed=[arguments[position] for position in described.passed],
        copied=list(described.copied),
        views=list(described.views),
        aliases=[_alias(alias, arguments) for alias in described.aliases],
        outputs=_outputs(
            metadata.output_info,
            module,
            nodes,
            positions,
            {a.output for a in described.aliases if not a.is_computed},
        ),
        inputs=[_input(node, index) for node, index in zip(nodes, arguments)],
        guards=guards,
        guards_by_source=by_source,
        constants=[
            (positions[name], _C.hash_tensor(value.detach().contiguous()))
            for name, value in described.constants.items()
            if name in positions
        ],
    )


def _alias(alias: Alias, arguments: list[int]) -> Alias:
    if alias.of_output:
        return alias
    return dataclasses.replace(alias, base=arguments[alias.base])


def _outputs(
    infos: list[Any],
    module: torch.fx.GraphModule,
    nodes: list[torch.fx.Node],
    positions: dict[str, int],
    viewed: set[int],
) -> list[Any]:
    """The form that AOTAutograd's wrapper gives each output of the graph: the result itself,
    an input, or a view of an input that begins at a known distance. Outputs in `viewed`
    are views already."""
    (end,) = module.graph.find_nodes(op="output")
    found: list[list[Any]] = []
    for place, (info, node) in enumerate(zip(infos, end.args[0])):
        kind = info.output_type.name
        if kind in ("non_alias", "unsafe_view_alias"):
            found.append(["result"])
        elif kind == "is_input":
            found.append(["input", info.base_idx])
        elif kind == "alias_of_input" and place in viewed:
            found.append(["result"])
        elif kind == "alias_of_input":
            base = [n for n in nodes if positions[n.name] == info.base_idx]
            found.append(["view", info.base_idx, _distance(node, base)])
        else:
            raise NotCacheable(f"an output is of the kind {kind}")
    return found


def _distance(node: Any, bases: list[torch.fx.Node]) -> int:
    """The distance from the start of its base to the start of a view, in elements."""
    if len(bases) != 1 or not isinstance(node, torch.fx.Node):
        raise NotCacheable("an output views what is no tensor of the caller's")
    value, base = node.meta["val"], bases[0].meta["val"]
    if value.untyped_storage()._cdata != base.untyped_storage()._cdata:
        raise NotCacheable("an output's memory is an input's, in no known way")
    start, free = _hint(base.storage_offset())
    at, symbols = _hint(value.storage_offset())
    if not symbols <= free:
        raise NotCacheable("an output begins at a distance that varies")
    bytes_ = at * value.element_size() - start * base.element_size()
    return bytes_ // value.element_size()


def _hint(offset: Any) -> tuple[int, set[str]]:
    """The offset in this call, and the symbols that it depends on."""
    if not isinstance(offset, torch.SymInt):
        return offset, set()
    return offset.node.hint, {s.name for s in offset.node.expr.free_symbols}


def _input(node: torch.fx.Node, index: int) -> dict[str, Any]:
    value = node.meta.get("val")
    entry: dict[str, Any] = {"argument": index, "name": str(node.target)}
    try:
        if isinstance(value, torch.Tensor):
            entry["dtype"] = str(value.dtype)
            entry["shape"] = [integer(size) for size in value.shape]
            entry["strides"] = [integer(stride) for stride in value.stride()]
        elif isinstance(value, int | torch.SymInt):
            entry["expr"] = integer(value)
    except Unsupported as reason:
        raise NotCacheable(str(reason)) from reason
    return entry


def _shape_guards(
    nodes: list[torch.fx.Node], arguments: list[int]
) -> tuple[list[tuple[str, list[str], list[int]]], list[str]]:
    """The conditions on sizes that the trace took for granted, beyond limits of one
    symbol, which the program checks itself.

    Each condition is [expression, names, arguments]. Conditions on sizes that the graph
    does not use are expressions over Dynamo's sources.
    """
    symbols: dict[str, int] = {}
    environment: Any = None
    for node, index in zip(nodes, arguments):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            environment = value.node.shape_env
            symbols.setdefault(str(value.node.expr), index)
    found, by_source = [], []
    for guard in getattr(environment, "guards", ()):
        names = sorted(symbol.name for symbol in guard.expr.free_symbols)
        if not names or _is_limit(guard.expr):
            continue
        if set(names) <= set(symbols):
            places = [symbols[name] for name in names]
            found.append((_printed(guard.expr), names, places))
        elif text := _by_source(guard.expr, environment):
            by_source.append(text)
    return found, by_source


def _by_source(expr: Any, environment: Any) -> str:
    """The expression with each symbol replaced by the source that Dynamo read it from.
    Empty: a symbol has no source."""
    text = _printed(expr)
    known = getattr(environment, "var_to_sources", {})
    for symbol in expr.free_symbols:
        sources = known.get(symbol)
        if not sources:
            return ""
        name = name_of(sources[0]).replace("\\", r"\\")
        text = re.sub(rf"\b{re.escape(symbol.name)}\b", name, text)
    return text


def _is_limit(expr: Any) -> bool:
    """Whether the condition compares one symbol with a number, or excludes the sizes
    between gears. The program's limits do not include `!=`."""
    sides = getattr(expr, "args", ())
    if type(expr).__name__ == "Or" and len(expr.free_symbols) == 1:
        return all(map(_is_limit, sides))
    return (
        len(sides) == 2
        and type(expr).__name__ not in ("Unequality", "Equality")
        and {side.is_Symbol or side.is_Integer for side in sides} == {True}
    )


def _printed(expr: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(expr)
