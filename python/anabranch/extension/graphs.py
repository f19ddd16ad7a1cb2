"""The way of a graph: options, trace, the passes of a front end, and compilation."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch.fx
from torch._ops import OpOverload

from .. import _C, backend, config, dynamo_lock, purity
from ..capture import aot, eager_graph, handmade, observer
from ..capture.frames import backend_has
from ..capture.input_sources import input_sources
from ..describe import description
from ..shapes.gears import GearDim

__all__ = [
    "Description",
    "InputSource",
    "backend_has",
    "compile_graph",
    "complete_nodes",
    "configure",
    "decompositions",
    "define_operator",
    "input_labels",
    "is_recording",
    "list_program",
    "lowered_operators",
    "run_eagerly",
    "trace",
    "traced_whole",
]

Call = Callable[..., Any]

InputSource = description.InputSource
Description = description.Description


def configure(
    options: Mapping[str, Any], base: config.Config | None = None
) -> config.Config:
    """The `anabranch.Config` of these options. `base` fills what they leave out, and the
    environment what both leave out. TypeError, ValueError: an option that does not
    exist, or a wrong value."""
    return config.resolve(options, config=base)


def define_operator(schema: str, compute: Call, fake: Call) -> OpOverload:
    """Defines an operator that writes nothing that a graph sees, as "space::name(...) ->
    ..." says. Graphs of such operators are traced without functionalization. `compute`
    computes it, and `fake` makes its results on fake tensors. An operator may keep
    something out of the graph, but two equal calls may become one, and a call whose
    result nobody reads may be left out."""
    return purity.define(schema, compute, fake)


def trace(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_one: aot.GraphCompiler,
    *,
    freeze: bool | str = False,
    decompositions: Mapping[Any, Call] | None = None,
    whole: Sequence[OpOverload] = (),
) -> Call:
    """Traces a Dynamo graph to ATen graphs and has `compile_one` compile each.

    module, example_inputs  as a Dynamo backend gets them
    compile_one     called with (module, example inputs, sources) of an ATen graph;
                    returns the function that runs it. `sources` say where the value of
                    each placeholder comes from
    freeze          whether parameters and buffers become constants
    decompositions  functions by operator; they win over the compiler's own table
    whole           composite operators that the trace does not take apart, unless a
                    gradient is asked for; `compile_one` has to take them apart

    Returns a function of the arguments of `module`.
    """
    return aot.aot(module, example_inputs, compile_one, freeze, decompositions, whole)


def input_labels(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[str]:
    """The `label` of each input of a Dynamo graph, as `trace` puts it into the input's
    InputSource."""
    return [s.label for s in input_sources(module, example_inputs, False).arguments]


def is_recording() -> bool:
    """Whether a CachedMethod is recording the current compilation. Later processes
    replay a recording without the wrappers that a front end puts around executables."""
    return observer.current() is not None


def decompositions() -> Mapping[Any, Call]:
    """The table of decompositions that `trace` uses: functions by operator."""
    return aot.decompositions()


@contextlib.contextmanager
def traced_whole(whole: Sequence[OpOverload] = ()) -> Iterator[None]:
    """Inside the block, any trace keeps the composite operators that `trace` keeps with
    the same `whole`. So a pattern that is traced inside the block matches graphs of
    `trace`."""
    with dynamo_lock.held(), aot.whole_composites(whole):
        yield


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    sources: Sequence[InputSource],
    *,
    config: config.Config,
    gears: Sequence[GearDim] = (),
    on_executable: Callable[[Any, Description], None] | None = None,
    on_package: Callable[[str], None] | None = None,
) -> Call:
    """Compiles one ATen graph, whose marks are resolved.

    module, example_inputs, sources  as `trace` hands them to `compile_one`
    config         as `configure` gives it
    gears          as `find_gears` gives them
    on_executable  called with the executable and the description of the graph
    on_package     called with the folder of the package, while the folder exists

    Returns a function of one list of arguments, which it empties. PyTorch runs graphs,
    or parts of one, that the compiler cannot describe; for a graph that PyTorch runs as
    a whole neither callback is called. CompileError: the graph asks for something
    impossible.
    """
    return backend.compile_graph(
        module,
        example_inputs,
        sources,
        config=config,
        geared=gears,
        on_executable=on_executable,
        on_package=on_package,
    )


def complete_nodes(
    module: torch.fx.GraphModule, parts: handmade.Parts = handmade.NO_PARTS
) -> None:
    """Makes nodes that a pass has inserted into nodes as `trace` makes them: ATen
    operators with `meta["val"]`. Operators in `parts` become what these functions are
    made of, which are traced once for arguments of equal forms.

    If the dtype or shape of a node changed, its readers get a new `meta["val"]` too.
    CompileError: a node cannot be run.
    """
    handmade.complete(module, parts)


def run_eagerly(module: torch.fx.GraphModule) -> Call:
    """A function by which PyTorch runs the graph, called as the result of
    `compile_graph`."""
    return eager_graph.run_eagerly(module)


def lowered_operators() -> frozenset[str]:
    """The operators that the compiler has kernels for, named as `aten.add.Tensor`."""
    return frozenset(f"aten.{row['op']}" for row in json.loads(_C.operator_table()))


def list_program(folder: str) -> str:
    """The text that `anabranch inspect` prints for a package: each program with its
    streams, commands and events. OSError: there is no package."""
    return _C.inspect(folder)
