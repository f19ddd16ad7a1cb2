"""The door for front ends: packages that put another programming interface over
Anabranch's compiler.

A front end imports `anabranch` and this module, and nothing else of the package:
the names here stay when the modules behind them move. docs/design/extension.md
shows how a front end uses them, in the order in which a graph meets them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx.traceback import annotate

from . import _C, backend, config, location
from .capture import aot, handmade, observer
from .capture.input_sources import input_sources
from .describe import description, graph, symbols
from .marks import gear_sizes, mark_order, scope, super_kernel, unbroken
from .method_cache import bytecode, cached_method, entry_text
from .packages import cache, kernel_library, package
from .shapes import gears

__all__ = [
    "MOST_GEAR_COMBINATIONS",
    "RECORD",
    "SUPER_KERNEL_OPTIONS",
    "WAIT",
    "WAIT_EVENT",
    "WAIT_TAG",
    "CachedMethod",
    "Description",
    "ExactShapes",
    "GearDim",
    "InputSource",
    "Marks",
    "Ranks",
    "StaticPackage",
    "UserLine",
    "add_index_name",
    "add_mark_resolver",
    "attach_gears",
    "check_method",
    "code_digest",
    "compile_graph",
    "complete_nodes",
    "configure",
    "copy_package",
    "decompositions",
    "drop_super_kernel",
    "find_gears",
    "find_user_line",
    "guard_gears",
    "hide_frames",
    "input_labels",
    "is_order_operator",
    "is_recording",
    "is_wait_result",
    "list_program",
    "lowered_operators",
    "read_super_kernel_option",
    "readable_cache",
    "run_eagerly",
    "set_marks",
    "size_hint",
    "stream_of",
    "trace",
    "traced_whole",
    "unbroken_scope",
    "user_line",
    "wait_if_computed",
]

Call = Callable[..., Any]

# Capture and compilation

InputSource = description.InputSource
Description = description.Description


def configure(options: Mapping[str, Any]) -> config.Config:
    """The `anabranch.Config` of these options; the environment fills what they leave
    out. TypeError, ValueError: an option that does not exist, or a wrong value."""
    return config.resolve(options)


def trace(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_one: aot.GraphCompiler,
    *,
    freeze: bool | str = False,
    decompositions: Mapping[Any, Call] | None = None,
    whole: Sequence[OpOverload] = (),
) -> Call:
    """Traces a Dynamo graph to ATen graphs and hands each to `compile_one(module,
    example_inputs, sources)`, which returns what runs it. `sources` say where
    each placeholder's value comes from; with `freeze`, parameters and buffers are
    constants. `decompositions` win over the compiler's own table. `whole` are composite
    operators that come whole to `compile_one` where no gradient is asked for, which has
    to take them apart."""
    return aot.aot(module, example_inputs, compile_one, freeze, decompositions, whole)


def input_labels(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[str]:
    """The `label` that `trace` gives the InputSource of each of a Dynamo graph's inputs."""
    return [s.label for s in input_sources(module, example_inputs, False)][
        -len(example_inputs) or None :
    ]


def is_recording() -> bool:
    """Whether a CachedMethod records what is compiled now: later processes call the
    executables without what a front end has put around them."""
    return observer.current() is not None


def decompositions() -> Mapping[Any, Call]:
    """The table that `trace` takes operators apart with."""
    return aot.decompositions()


def traced_whole(
    whole: Sequence[OpOverload] = (),
) -> contextlib.AbstractContextManager[None]:
    """Inside, tracing keeps the composite operators whole that `trace` keeps whole, given
    the same `whole`. A pattern that is traced inside therefore matches graphs of
    `trace`."""
    return aot.whole_composites(whole)


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
    """Compiles one ATen graph, whose marks are resolved. The result takes one list
    of arguments. PyTorch runs graphs, or parts of one, that the compiler can't
    describe.

    `on_executable` gets the executable and the graph's description, `on_package` the
    folder of the package while it exists; neither is called for a graph that
    PyTorch runs. CompileError: the graph asks for something impossible."""
    return backend.compile_graph(
        module,
        example_inputs,
        sources,
        config=config,
        geared=gears,
        built=on_executable,
        seen=on_package,
    )


def complete_nodes(module: torch.fx.GraphModule) -> None:
    """Makes nodes that a pass has put into a graph by hand into nodes as `trace` makes
    them: with `meta["val"]`, and of operators. What reads them gets its `meta["val"]`
    anew where its dtype or shape changed. CompileError: a node can't be run."""
    handmade.complete(module)


def run_eagerly(module: torch.fx.GraphModule) -> Call:
    """PyTorch's run of a graph, called as `compile_graph`'s result is."""
    return backend.run_eagerly(module)


def lowered_operators() -> frozenset[str]:
    """The operators that the compiler has kernels for, as `aten.add.Tensor`."""
    return frozenset(f"aten.{row['op']}" for row in json.loads(_C.operator_table()))


def list_program(folder: str) -> str:
    """The listing of a package, as `anabranch inspect` prints it: each program with
    its streams, commands and events. OSError: there is no package."""
    return _C.inspect(folder)


# Marks: streams, waits and super kernels

WAIT = torch.ops.anabranch.wait.default
RECORD = torch.ops.anabranch.record.default
WAIT_EVENT = torch.ops.anabranch.wait_event.default
WAIT_TAG = torch.ops.anabranch.wait_tag.default

SUPER_KERNEL_OPTIONS = super_kernel.NAMES


@dataclasses.dataclass(frozen=True)
class Marks:
    """What the scopes around one operator say; None where no scope says anything.

    `super_kernel` "" takes the operator out of the super kernels around it."""

    stream: str | None = None
    cores: int | None = None
    super_kernel: str | None = None
    super_options: str = ""


def set_marks(node: torch.fx.Node, marks: Marks) -> None:
    """Puts marks on a node, over those that it has."""
    custom = dict(node.meta.get("custom") or {})
    if marks.stream is not None:
        custom |= {scope.STREAM: marks.stream, scope.PRIORITY: 0}
    if marks.cores is not None:
        custom[scope.CORES] = marks.cores
    if marks.super_kernel is not None:
        custom[super_kernel.SUPER] = marks.super_kernel
        custom[super_kernel.OPTIONS] = marks.super_options
    node.meta["custom"] = custom


def unbroken_scope(what: str) -> contextlib.AbstractContextManager[None]:
    """For the inside of a scope's own context manager, written as a generator. A graph
    break inside is then torch._dynamo.exc.Unsupported, whose message names `what`, the
    line that entered the scope and the line that breaks. Without effect in eager code."""
    return unbroken.unbroken(what)


def drop_super_kernel(node: torch.fx.Node) -> None:
    """Takes the mark of a super kernel from a node; other marks stay."""
    custom = node.meta.get("custom") or {}
    custom.pop(super_kernel.SUPER, None)
    custom.pop(super_kernel.OPTIONS, None)


def stream_of(node: torch.fx.Node) -> str | None:
    """The stream that a node is marked for."""
    return (node.meta.get("custom") or {}).get(scope.STREAM)


def read_super_kernel_option(text: str) -> tuple[str, str]:
    """Name and value of one `name=value` of super_kernel(). ValueError: it is none."""
    return super_kernel.check(text)


def wait_if_computed(tensor: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`anabranch.wait` for use inside an operator. A dependency that the graph does
    not compute is there already, and not an error."""
    torch.ops.anabranch.wait(tensor, dependency, False)
    # A name of its own for the value, so that its users can be told apart.
    with annotate({scope.PASS: True}):
        return torch.ops.aten.alias.default(tensor)


def is_order_operator(target: OpOverload) -> bool:
    """Whether an operator only orders others: WAIT, RECORD, WAIT_EVENT, WAIT_TAG."""
    return mark_order.is_order(target)


def is_wait_result(node: torch.fx.Node) -> bool:
    """Whether a node is the alias that a wait gives back."""
    return mark_order.is_pass(node)


def add_mark_resolver(resolve: Callable[[torch.fx.GraphModule], None]) -> None:
    """Has `anabranch.export` call `resolve` with each graph, before it reads marks: the
    front end turns marks of its own into those of this module."""
    scope.resolvers.append(resolve)


# Lines of the user's program


@dataclasses.dataclass(frozen=True)
class UserLine:
    """A line of a program, in the function that holds it."""

    file: str
    line: int
    function: str
    code: str


def hide_frames(path: str) -> None:
    """Frames of this file, or of the files in this folder, are never the user's."""
    location.hide(path)


def find_user_line(node: torch.fx.Node) -> UserLine | None:
    """The innermost line of the user's behind a node; None when unknown."""
    found = location.location(node)
    return UserLine(**found) if found["file"] else None


def user_line(node: torch.fx.Node) -> str:
    """The same for messages: `m.py:12, in forward: x = x + y`, "" when unknown."""
    return location.user_line(node)


# Gears: sizes that come again

GearDim = gears.GearDim
MOST_GEAR_COMBINATIONS = gears.MOST_COMBINATIONS


def attach_gears(tensor: torch.Tensor, sizes: Mapping[int, Sequence[int]]) -> None:
    """`anabranch.set_gears` without its checks: `sizes` for each dimension."""
    gear_sizes.attach(tensor, sizes)


def find_gears(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[GearDim]:
    """The gears of a Dynamo graph's inputs, by name and dimension."""
    return gears.find(module, example_inputs)


def guard_gears(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    found: Sequence[GearDim],
) -> None:
    """Has Dynamo compile again for sizes that the gears don't cover."""
    gears.guard(module, example_inputs, found)


def size_hint(size: int | torch.SymInt) -> int:
    """The size that a traced dimension has in the call that is traced."""
    return gears.hint(size)


# Packages for exact shapes

StaticPackage = kernel_library.Static


def copy_package(package: StaticPackage, folder: str) -> None:
    """Copies the files of a package to a folder that does not exist yet."""
    kernel_library.copy_files(package, folder)


class ExactShapes:
    """Packages of one graph for exact shapes, in the library that processes and models
    share. Hand `on_executable` to `compile_graph`, or call `describe` for a graph that
    PyTorch runs; then `compile` for the arguments of a call."""

    def __init__(self, config: config.Config) -> None:
        self._config = config
        self._executable: Any = None
        self._described: Description | None = None

    def on_executable(self, executable: Any, described: Description) -> None:
        """Calls of sizes that were compiled run in the programs made for them."""
        self._executable, self._described = executable, described

    def describe(
        self, module: torch.fx.GraphModule, sources: Sequence[InputSource]
    ) -> None:
        """A graph without an executable. `compile` does nothing for a graph that the
        compiler can't describe."""
        with contextlib.suppress(symbols.Unsupported):
            self._described = graph.GraphReader(module, "static", sources).read()

    @contextlib.contextmanager
    def compile(
        self, arguments: Sequence[Any], records: Sequence[Any]
    ) -> Iterator[StaticPackage | None]:
        """The package for the shapes of these arguments, from the library or made now;
        its folder exists inside of the `with`. None: PyTorch runs this graph.
        `records` is JSON that the library shows with the package."""
        if self._described is None:
            yield None
            return
        sizes = _sizes_of(self._described, arguments)
        with kernel_library.compile_static(
            self._described, self._config, sizes, records
        ) as made:
            yield made
            if sizes and self._executable is not None:
                self._add(made)

    def _add(self, made: StaticPackage) -> None:
        """Also for later processes, where `cache_compile` records this compilation."""
        assert self._described is not None
        loaded = package.load(
            made.folder, self._described, self._config, check_hashes=False
        )
        self._executable.add(loaded)
        watching = observer.current()
        if watching is not None and made.key:
            watching.kernels.append(made.key)


def _sizes_of(described: Description, arguments: Sequence[Any]) -> dict[str, int]:
    """The values of a graph's symbols in a call."""
    wanted = {symbol["name"] for symbol in described.graph["symbols"]}
    found: dict[str, int] = {}
    passed = [entry for entry in described.graph["inputs"] if "constant" not in entry]
    for entry, position in zip(passed, described.passed):
        value = arguments[position]
        if isinstance(entry.get("expr"), str):
            found.setdefault(entry["expr"], int(value))
        for dim, size in enumerate(entry.get("shape", ())):
            if isinstance(size, str):
                found.setdefault(size, int(value.shape[dim]))
    return {name: size for name, size in found.items() if name in wanted}


# The compile cache

CachedMethod = cached_method.CachedMethod
Ranks = cached_method.Ranks
readable_cache = entry_text.readable_cache


def add_index_name(name: str) -> None:
    """Lets `readable_cache` find entries of a CachedMethod whose `index` is `name`."""
    entry_text.index_names.append(name)


def check_method(method: Any) -> types.MethodType:
    """The method, if it is a module's; else ValueError: nothing else is cached."""
    return cached_method.check_method(method)


def code_digest(function: Any) -> str:
    """A hash of what a function does, or of a callable's name where it has no code
    of Python's."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        return bytecode.code_digest(code)
    return cache.digest(getattr(function, "__qualname__", type(function).__name__))
