"""Writes the values of a graph's nodes to files: debug.data_dump and dump_config.

A compiled program computes several operators at once and has no value for each. So
PyTorch runs the graph, operator by operator, and this module writes the files in
between."""

from __future__ import annotations

import csv
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
import torch.fx
from torch._ops import OpOverload

from anabranch.extension import is_order_operator

from ..errors import warn_once
from ..marks.attributes import scopes_of
from ..options.config import CompilerConfig, raw
from ..options.table import TUNE
from .picture import convert
from .process import rank

__all__ = ["Values", "is_original", "values_of", "wants_values"]

SCOPE = "torchair_enable_data_dump"
# Numbers of the graphs of max-autotune that dump, in folder names.
_models = itertools.count(1)
_STATISTICS = ("op_type", "op_name", "side", "index", "dtype", "shape")
_NUMBERS = ("max", "min", "mean", "l2")


class Values(torch.fx.Interpreter):
    """Runs the graph. `keep(step, node, inputs, result)` is called for each operator,
    and for each input if `keeps_inputs`."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        keep: Callable[[int, torch.fx.Node, Any, Any], None],
        keeps_inputs: bool = False,
    ) -> None:
        super().__init__(module)
        self.keep = keep
        self.keeps_inputs = keeps_inputs
        self.steps = itertools.count()
        self.step = 0

    def run_node(self, n: torch.fx.Node) -> Any:
        target = n.target
        computes = isinstance(target, OpOverload) and not is_order_operator(target)
        if n.op == "placeholder":
            computes = self.keeps_inputs
        # Copied before the operator runs, since it may write to its operands.
        inputs = [_copy(v) for v in self.fetch_args_kwargs_from_env(n)[0]]
        result = super().run_node(n)
        if computes:
            self.keep(self.step, n, inputs, result)
        return result

    def boxed(self) -> Callable[[list[Any]], Any]:
        def call(arguments: list[Any]) -> Any:
            self.step = next(self.steps)
            values = list(arguments)
            arguments.clear()
            return self.run(*values)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def values_of(
    module: torch.fx.GraphModule, config: CompilerConfig, number: int
) -> Callable[[list[Any]], Any] | None:
    """Runs the graph and writes the files that the configuration asks for. None: it
    asks for none."""
    keeps_inputs = False
    if raw(config, "debug.data_dump.type"):
        keep = _data_dump(config, number)
    elif raw(config, "dump_config.enable_dump"):
        tuned = config.mode.value == TUNE
        keep = _engine_dump(config, number, module) if tuned else _saved(config)
        keeps_inputs = not tuned
    else:
        return None
    warn_once(
        "When dumping data of FX Graph, npu run will be skipped, and FALLBACK to EAGER"
    )
    return Values(module, keep, keeps_inputs).boxed()


def wants_values(config: CompilerConfig) -> bool:
    return bool(
        raw(config, "debug.data_dump.type") or raw(config, "dump_config.enable_dump")
    )


def is_original(config: CompilerConfig) -> bool:
    """Whether the configuration asks for values of the graph before any pass."""
    return (
        config.mode.value != TUNE
        and bool(raw(config, "dump_config.enable_dump"))
        and raw(config, "dump_config.data_dump_stage") == "original"
    )


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value


def _array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        wide = value.to(torch.float32) if value.dtype == torch.bfloat16 else value
        return wide.cpu().resolve_conj().resolve_neg().numpy()
    return numpy.array(str(value) if isinstance(value, torch.dtype) else value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The value; of a list of tensors, each element with a numbered suffix."""
    if isinstance(value, list | tuple) and any(
        isinstance(item, torch.Tensor) for item in value
    ):
        yield from ((f".{i}", item) for i, item in enumerate(value))
    else:
        yield "", value


def _home(folder: str | None) -> str:
    group = torch.distributed
    world = 1
    if group.is_available() and group.is_initialized():
        world = group.get_world_size()
    return os.path.join(folder or ".", f"worldsize{world}_global_rank{rank()}")


# debug.data_dump


def _data_dump(config: CompilerConfig, number: int) -> Callable[..., None]:
    folder = raw(config, "debug.data_dump.path")
    accept = raw(config, "debug.data_dump.filter")

    def keep(step: int, node: torch.fx.Node, inputs: Any, result: Any) -> None:
        if accept is not None and accept(node) is None:
            return
        target = os.path.join(_home(folder), f"graph_{number}", str(step))
        os.makedirs(target, exist_ok=True)
        stamp = time.strftime("%Y%m%d%H%M%S")
        start = os.path.join(target, f"{node.name}-{node.target}")
        for i, value in enumerate(inputs):
            for part, item in _parts(value):
                numpy.save(f"{start}.INPUT.{i}{part}.{stamp}.npy", _array(item))
        results = result if isinstance(result, list | tuple) else [result]
        for i, item in enumerate(results):
            numpy.save(f"{start}.OUTPUT.{i}.{stamp}.npy", _array(item))

    return keep


# dump_config


def _saved(config: CompilerConfig) -> Callable[..., None]:
    """For the capture modes: a file for each input of the graph and each result, unless
    the program saves that result itself."""
    folder = _home(raw(config, "dump_config.dump_path"))
    saves = torch.ops.npu._save_tensors.default

    def keep(step: int, node: torch.fx.Node, inputs: Any, result: Any) -> None:
        if result is None or any(user.target is saves for user in node.users):
            return
        os.makedirs(folder, exist_ok=True)
        for part, item in _parts(result):
            name = f"{node.name}{part.replace('.', '_')}_device_0_{step + 1}.pt"
            torch.save(item, os.path.join(folder, name))

    return keep


def _engine_dump(
    config: CompilerConfig, number: int, module: torch.fx.GraphModule
) -> Callable[..., None]:
    graph = convert(module, f"graph_{number}")
    known = {n.source: n for n in graph.nodes if n.source is not None}
    layers = raw(config, "dump_config.dump_layer").replace('"', " ").split()
    layers += [n.name for n in graph.nodes if n.source and SCOPE in scopes_of(n.source)]
    layers = sorted(set(layers))
    steps = _steps(raw(config, "dump_config.dump_step"))
    mode = raw(config, "dump_config.dump_mode")
    write = _WRITERS[raw(config, "dump_config.dump_data")]
    folder = raw(config, "dump_config.dump_path")
    home = os.path.join(_home(folder), time.strftime("%Y%m%d%H%M%S"), "0")
    home = os.path.join(home, graph.name, str(next(_models)))
    _write_options(config, graph.name, layers)

    def keep(step: int, node: torch.fx.Node, inputs: Any, result: Any) -> None:
        shown = known.get(node)
        if shown is None or (layers and shown.name not in layers):
            return
        if steps is not None and step not in steps:
            return
        target = os.path.join(home, str(step))
        os.makedirs(target, exist_ok=True)
        results = result if isinstance(result, list | tuple) else [result]
        for side, values in (("input", inputs), ("output", results)):
            if mode in (side, "all"):
                tensors = [t for v in values for _, t in _parts(v)]
                tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
                for i, tensor in enumerate(tensors):
                    write(target, shown.type, shown.name, side, i, tensor)

    return keep


def _write_tensor(
    folder: str, kind: str, name: str, side: str, index: int, tensor: torch.Tensor
) -> None:
    path = os.path.join(folder, f"{kind}.{name}.{side}.{index}.npy")
    numpy.save(path, _array(tensor))


def _write_statistics(
    folder: str, kind: str, name: str, side: str, index: int, tensor: torch.Tensor
) -> None:
    path = os.path.join(folder, "statistics.csv")
    is_new = not os.path.exists(path)
    wide = tensor.detach().to(torch.float64)
    numbers = [wide.max(), wide.min(), wide.mean(), wide.norm()] if wide.numel() else []
    with open(path, "a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        if is_new:
            rows.writerow([*_STATISTICS, *_NUMBERS])
        shape = list(tensor.shape)
        about = [kind, name, side, index, tensor.dtype, shape]
        rows.writerow([*about, *(float(n) for n in numbers)])


_WRITERS = {"tensor": _write_tensor, "stats": _write_statistics}


def _steps(text: str) -> set[int] | None:
    """The numbers that a text such as `0|2-5` names; None: all steps."""
    if not text:
        return None
    found: set[int] = set()
    for part in filter(None, text.split("|")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _write_options(config: CompilerConfig, model: str, layers: list[str]) -> None:
    """Writes the dump options to the current folder, in the graph engine's format."""
    names = ("dump_path", "dump_mode", "dump_data", "dump_step", "quant_dumpable")
    dump: dict[str, Any] = {n: raw(config, f"dump_config.{n}") for n in names}
    dump["dump_list"] = [{"model_name": model, "layer": layers}]
    os.makedirs("ge_dump_data_json", exist_ok=True)
    home = os.path.basename(_home(None)).replace("global_rank", "rank")
    path = f"ge_dump_data_json/dump_options_{home}_pid{os.getpid()}.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"dump": dump}, file, indent=1)
