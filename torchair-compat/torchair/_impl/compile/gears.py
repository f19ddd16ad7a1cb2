"""Checks the gears of a graph as TorchAir does, and shows them as the graph engine's
options."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from anabranch import CompileError
from anabranch.extension import (
    MOST_GEAR_COMBINATIONS,
    GearDim,
    InputSource,
    find_gears,
    guard_gears,
    size_hint,
)

from ..options.config import CompilerConfig, raw


class GearsError(CompileError, AssertionError):
    """The gears contradict each other, or the call."""


@dataclasses.dataclass(frozen=True)
class Geared:
    """The gears of a Dynamo graph, and the names of its placeholders."""

    dims: list[GearDim]
    merge: str
    names: dict[int, str]  # names of placeholders, by the number of the argument


def find(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], config: CompilerConfig
) -> Geared | None:
    """The gears of the inputs, checked and guarded; None without gears."""
    dims = find_gears(module, example_inputs)
    if not dims:
        return None
    for gear in dims:
        size = size_hint(gear.size)
        if size not in gear.sizes:
            raise GearsError(
                f"The index {size} of the current tensor shape is not within the range"
                f" {list(gear.sizes)}"
            )
    merge = str(raw(config, "inference_config.dynamic_gears_merge_policy"))
    _check_combinations(dims, merge)
    guard_gears(module, example_inputs, dims)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    names = {place: node.name for place, node in enumerate(placeholders)}
    return Geared(dims, merge, names)


def _check_combinations(dims: Sequence[GearDim], merge: str) -> None:
    lists = [gear.sizes for gear in dims]
    if merge == "zip" and len({len(sizes) for sizes in lists}) > 1:
        raise GearsError(
            "when dynamic_gears_merge_policy is zip, input gears len must same."
        )
    combined = zip(*lists) if merge == "zip" else itertools.product(*map(set, lists))
    count = len(set(combined))
    if count > MOST_GEAR_COMBINATIONS:
        raise GearsError(
            f"The total number of gears set cannot exceed {MOST_GEAR_COMBINATIONS},"
            f" and the current number of gears is: {count}"
        )
    if not any(isinstance(gear.size, torch.SymInt) for gear in dims):
        raise GearsError("At least one dimension should have levels.")


def options(module: torch.fx.GraphModule, geared: Geared | None) -> dict[str, str]:
    """The graph engine's options for the gears of a graph."""
    if geared is None:
        return {}
    shapes: list[str] = []
    columns: list[tuple[int, ...]] = []
    for node in sorted(_tensors(module), key=lambda node: node.name):
        origin = geared.names.get(getattr(node.meta.get("desc"), "idx", -1), "")
        own = {gear.dim: gear for gear in geared.dims if gear.input == origin}
        shape = node.meta["val"].shape
        sizes = [-1 if isinstance(s, torch.SymInt) else s for s in shape]
        shapes.append(f"{node.name}:{','.join(map(str, sizes))}")
        columns += [own[d].sizes for d, s in enumerate(sizes) if d in own and s == -1]
    if not columns:
        return {}
    merge = zip if geared.merge == "zip" else itertools.product
    rows = dict.fromkeys(merge(*columns))
    return {
        "ge.inputShape": ";".join(shapes),
        "ge.dynamicDims": ";".join(",".join(map(str, row)) for row in rows),
        "ge.dynamicNodeType": "1",
    }


def _tensors(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [
        node
        for node in module.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    ]


def hint_shapes(module: torch.fx.GraphModule) -> dict[str, str]:
    """The sizes of each input in the call that is compiled; none for a number."""
    shapes = []
    for place, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        sizes = list(value.shape) if isinstance(value, torch.Tensor) else []
        shapes.append(f"{place}:{[int(size_hint(size)) for size in sizes]}")
    return {"ge.inputHintShape": ";".join(shapes)}


def frozen_flags(
    module: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> dict[str, str]:
    """For each input, in order, whether it is a parameter, whether it is used or not."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    flags = [str(int(source.kind == "parameter")) for _, source in zip(nodes, sources)]
    return {"ge.exec.frozenInput": ",".join(flags)}
