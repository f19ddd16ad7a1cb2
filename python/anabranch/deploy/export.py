"""anabranch.export: writes a package that runs without PyTorch."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves

from .. import _C
from ..capture.complex_parts.rewrite import rewrite
from ..capture.recurrent.tracing import taken_in
from ..capture.scales import exponents
from ..collectives.operators import is_own_name
from ..config import Config, resolve
from ..describe.description import Description
from ..describe.graph import GraphReader
from ..describe.symbols import Unsupported
from ..errors import CompileError
from ..marks import scope
from ..marks.gear_sizes import gears_of
from ..marks.mark_order import Order
from ..packages import package, tuning
from ..report import record
from ..shapes.gears import MOST_COMBINATIONS, Binding
from .exported_program import ExportedGraph, read_exported

_C.use_torch()


def export(
    model: torch.nn.Module | ExportedProgram,
    path: str | os.PathLike[str],
    inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    targets: Sequence[str] | None = None,
    config: Config | None = None,
    allow_libtorch: bool = False,
    allow_collectives: bool = False,
    overwrite: bool = False,
) -> None:
    """Writes the package folder `path`, with the weights inside.

    model           an nn.Module in eval mode, or an ExportedProgram
    path            the folder, in one that exists
    inputs          an example of the arguments of `forward`: a tuple of positional
                    arguments, or a dict of named ones. Not needed for an
                    ExportedProgram
    dynamic_shapes  as torch.export takes them; every other size is fixed. A dimension
                    of an input that `set_gears` gave sizes has a program for each of
                    them, and takes no other size
    targets         processors: "native" (this machine), "x86-64-v3" (AVX2), "x86-64-v4"
                    (AVX-512), LLVM's names of CPUs, such as "znver4", or "portable":
                    slow code for every processor of this machine's architecture. One
                    package has code for all of them. None: "native"
    config          the options; default: Config()
    allow_libtorch  accepts operators that only PyTorch has; the package then runs only
                    where PyTorch is installed
    allow_collectives  accepts collectives of torch.distributed, which the program that
                    loads the package runs: PyTorch in Python, HostCalls in C++
    overwrite       replaces a package that exists

    TypeError, ValueError: a wrong argument. CompileError: the model cannot be exported;
    the message has the reason and the user's line. FileExistsError: `path` exists.
    OSError: the folder cannot be written.
    """
    wanted = _targets(targets)
    place = _place(path, overwrite)
    settings = resolve({"freeze": True}, config=config)
    if settings.stop is not None:
        raise ValueError(
            f"stop={settings.stop!r}: a compilation that stops early makes no package;"
            " leave the option out"
        )
    _refuse_timing(settings, wanted)
    program = _program(model, inputs, dynamic_shapes)
    forward = None if isinstance(model, ExportedProgram) else model.forward
    name = type(model).__name__ if forward else "exported"
    try:
        exported = read_exported(program, forward)
        for resolve_marks in scope.resolvers:
            resolve_marks(exported.module)
        exponents.rewrite(exported.module)
        rewrite(exported.module)
        described = GraphReader(
            exported.module,
            name,
            exported.sources,
            Order.configured(settings),
            standalone=True,
        ).read()
    except Unsupported as reason:
        raise CompileError(f"the model can't be exported: {reason}") from None
    except AssertionError as error:
        if not _share_memory(inputs):
            raise
        raise CompileError(
            "the model can't be exported: it updates an example input that shares memory"
            " with another one; give each input memory of its own"
        ) from error
    for symbol in described.graph["symbols"]:
        symbol |= exported.ranges.get(symbol["name"], {})
    tuning.choose_blockings(described, settings)
    bindings = _gear_bindings(described, inputs)
    folder = os.path.dirname(place)
    with tempfile.TemporaryDirectory(prefix=".anabranch-", dir=folder) as scratch:
        made = [(target, os.path.join(scratch, target)) for target in wanted]
        for report in _write_all(described, settings, bindings, made):
            record(report, graphs=1)
            if not allow_libtorch:
                _refuse_fallbacks(report, allow_collectives)
        _C.combine(
            place,
            made,
            json.dumps(_signature(exported, described)),
            list(exported.states.items()),
            overwrite,
        )


def _write_all(
    described: Description,
    config: Config,
    bindings: Sequence[Binding],
    made: Sequence[tuple[str, str]],
) -> list[dict[str, Any]]:
    """Compiles for each target into a folder of its own: all at once, unless the user
    watches the compiler."""

    def write(row: tuple[str, str]) -> dict[str, Any]:
        return package.write(described, config, row[1], bindings, cpu=row[0])

    if len(made) == 1 or config.progress or config.dump is not None:
        return list(map(write, made))
    with ThreadPoolExecutor(len(made)) as pool:
        return list(pool.map(write, made))


def _gear_bindings(described: Description, inputs: Any) -> list[Binding]:
    """Each combination of the gears of `inputs`, as values of symbols. CompileError: a
    dimension with gears is not dynamic, or has two lists of gears."""
    tensors = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor)]
    if not any(map(gears_of, tensors)):
        return []
    entries = [e for e in described.graph["inputs"] if e["kind"] == "input"]
    if len(entries) != len(tensors):
        raise CompileError("gears need a model that takes all of its inputs as tensors")
    sizes: dict[str, tuple[int, ...]] = {}
    for entry, tensor in zip(entries, tensors):
        for dim, gears in gears_of(tensor).items():
            symbol = entry["shape"][dim]
            if not isinstance(symbol, str):
                raise CompileError(
                    f"dimension {dim} of {entry['label']} has gears and is not dynamic:"
                    " name it in dynamic_shapes"
                )
            if sizes.setdefault(symbol, tuple(gears)) != tuple(gears):
                raise CompileError(
                    f"dimension {dim} of {entry['label']} has gears {list(gears)} and"
                    f" {list(sizes[symbol])}"
                )
    combinations = itertools.product(*sizes.values())
    found = [dict(zip(sizes, chosen)) for chosen in combinations]
    if len(found) > MOST_COMBINATIONS:
        raise CompileError(
            f"there are {len(found)} combinations of gears, of at most"
            f" {MOST_COMBINATIONS}"
        )
    return found


def _refuse_timing(config: Config, targets: Sequence[str]) -> None:
    """Sizes that win on this machine say nothing of another one."""
    others = [name for name in targets if name not in ("native", "host")]
    if config.tune is True and others:
        raise ValueError(
            f"tune=True times kernels on this machine, not on {', '.join(others)}: "
            "leave the option out, or export on such a machine for 'native'"
        )


def _targets(targets: Sequence[str] | None) -> list[str]:
    if isinstance(targets, str):
        raise TypeError(f"targets must be a list of names, got {targets!r}")
    wanted = list(targets) if targets is not None else ["native"]
    if not wanted or len(set(wanted)) != len(wanted):
        raise ValueError(f"targets must be different names, got {wanted}")
    return wanted


def _place(path: str | os.PathLike[str], overwrite: bool) -> str:
    """The path, if a package may be written there. Checked before the compilation; the
    rename at its end checks it again."""
    place = os.path.abspath(os.fsdecode(path))
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder}")
    if os.path.lexists(place):
        if not overwrite:
            raise FileExistsError(f"{place} exists; overwrite=True replaces a package")
        if not os.path.isfile(os.path.join(place, "manifest.json")):
            raise FileExistsError(
                f"{place} exists and is no package: choose another path"
            )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} can't be written")
    return place


def _share_memory(inputs: Any) -> bool:
    places = [
        t.untyped_storage().data_ptr() for t in tree_leaves(inputs) if _is_full(t)
    ]
    return len(set(places)) < len(places)


def _is_full(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _is_graph(model: torch.nn.Module) -> bool:
    """Whether torch.export made the module, as PT2E's quantised models are. Its mode is
    in the graph, and it refuses `eval()`."""
    return isinstance(model, torch.fx.GraphModule) and "eval" in vars(model)


def _program(model: Any, inputs: Any, dynamic_shapes: Any) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        if dynamic_shapes is not None:
            raise ValueError("an ExportedProgram has its dynamic shapes already")
        return model
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            "the model must be an nn.Module or an ExportedProgram, got "
            f"{type(model).__name__}"
        )
    if inputs is None:
        raise TypeError(
            "an nn.Module is exported with example inputs: pass a tuple or a dict"
        )
    if model.training and not _is_graph(model):
        raise ValueError("the model is in training mode: call model.eval() first")
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    trace = functools.partial(
        torch.export.export,
        model,
        tuple(args),
        dict(kwargs),
        dynamic_shapes=dynamic_shapes,
    )
    # A scope is an annotation of nodes.
    with taken_in(packed=True), torch.no_grad(), preserve_node_meta():
        # Only Dynamo takes packed sequences in. What it cannot trace fails again below,
        # or is fine there.
        if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
            with contextlib.suppress(Exception):
                return trace(strict=True)
        try:
            return trace(strict=False)
        except Exception as error:
            raise CompileError(
                f"torch.export can't trace the model: {error}"
            ) from error


def _refuse_fallbacks(report: Mapping[str, Any], allow_collectives: bool) -> None:
    """CompileError: operators need PyTorch, and are no collectives that may stay."""
    found = report.get("fallbacks", [])
    ours = [entry for entry in found if is_own_name(entry["op"])]
    fallbacks = [e for e in found if not (allow_collectives and e in ours)]
    if not fallbacks:
        return
    lines = [
        f"  {entry['op']} at {entry.get('location') or 'an unknown line'}: "
        f"{entry.get('reason') or 'it has no kernel'}"
        for entry in fallbacks
    ]
    takes = "allow_libtorch=True"
    if len(ours) == len(fallbacks):
        takes = "allow_collectives=True"
    raise CompileError(
        "operators that only PyTorch has would be in the package "
        f"({takes} takes them):\n" + "\n".join(lines)
    )


def _signature(exported: ExportedGraph, described: Description) -> dict[str, Any]:
    names = [exported.sources[position].label for position in described.passed]
    return {
        "inputs": [{"name": n, "state": n in exported.states} for n in names],
        "outputs": exported.outputs,
        "parameters": exported.parameters,
        "results": exported.results,
    }
