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

from . import _C, backend, config, location
from .capture import aot, eager_graph, handmade, observer
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
    "is_traced",
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


def traced_whole(
    whole: Sequence[OpOverload] = (),
) -> contextlib.AbstractContextManager[None]:
    """Inside the block, any trace keeps the composite operators that `trace` keeps with
    the same `whole`. So a pattern that is traced inside the block matches graphs of
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


def complete_nodes(module: torch.fx.GraphModule) -> None:
    """Makes nodes that a pass has inserted into nodes as `trace` makes them: ATen
    operators with `meta["val"]`.

    If the dtype or shape of a node changed, its readers get a new `meta["val"]` too.
    CompileError: a node cannot be run.
    """
    handmade.complete(module)


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


# Marks: streams, waits and super kernels

WAIT = torch.ops.anabranch.wait.default
RECORD = torch.ops.anabranch.record.default
WAIT_EVENT = torch.ops.anabranch.wait_event.default
WAIT_TAG = torch.ops.anabranch.wait_tag.default

SUPER_KERNEL_OPTIONS = super_kernel.NAMES


@dataclasses.dataclass(frozen=True)
class Marks:
    """The marks that scopes leave on one operator; None where no scope says anything.

    `super_kernel` "" takes the operator out of the super kernels around it.
    """

    stream: str | None = None
    cores: int | None = None
    super_kernel: str | None = None
    super_options: str = ""


def set_marks(node: torch.fx.Node, marks: Marks) -> None:
    """Puts these marks on a node. Marks that are None leave the node's own as they are."""
    custom = dict(node.meta.get("custom") or {})
    if marks.stream is not None:
        custom |= {scope.STREAM: marks.stream, scope.PRIORITY: 0}
    if marks.cores is not None:
        custom[scope.CORES] = marks.cores
    if marks.super_kernel is not None:
        custom[super_kernel.SUPER] = marks.super_kernel
        custom[super_kernel.OPTIONS] = marks.super_options
    node.meta["custom"] = custom


def is_traced() -> bool:
    """Whether this code is traced or belongs to a compilation of this thread. Other
    threads may compile meanwhile, which `torch.compiler.is_compiling()` cannot tell."""
    return scope.is_traced()


def unbroken_scope(what: str) -> contextlib.AbstractContextManager[None]:
    """Makes a graph break an error, for a scope's own context manager: a generator uses
    it around its `yield`.

    The error is torch._dynamo.exc.Unsupported. Its message names `what`, the line that
    entered the scope and the line that breaks the graph. Eager code is not affected.
    """
    return unbroken.unbroken(what)


def drop_super_kernel(node: torch.fx.Node) -> None:
    """Takes the mark of a super kernel from a node; other marks stay."""
    custom = node.meta.get("custom") or {}
    custom.pop(super_kernel.SUPER, None)
    custom.pop(super_kernel.OPTIONS, None)


def stream_of(node: torch.fx.Node) -> str | None:
    """The stream that a node is marked for; None without a mark."""
    return (node.meta.get("custom") or {}).get(scope.STREAM)


def read_super_kernel_option(text: str) -> tuple[str, str]:
    """Name and value of one `name=value` of super_kernel(). ValueError: there is no
    such option, or it does not take this value."""
    return super_kernel.check(text)


def wait_if_computed(tensor: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`anabranch.wait` for use inside an operator's implementation. If the graph does
    not compute `dependency`, the value exists already, and the wait does nothing."""
    torch.ops.anabranch.wait(tensor, dependency, False)
    # The value gets a name of its own, so that its users can be told apart from those
    # of `tensor`.
    with scope.annotated({scope.PASS: True}):
        return torch.ops.aten.alias.default(tensor)


def is_order_operator(target: OpOverload) -> bool:
    """Whether an operator only orders others: WAIT, RECORD, WAIT_EVENT or WAIT_TAG."""
    return mark_order.is_order(target)


def is_wait_result(node: torch.fx.Node) -> bool:
    """Whether a node is the alias of a tensor that a wait returns."""
    return mark_order.is_pass(node)


def add_mark_resolver(resolve: Callable[[torch.fx.GraphModule], None]) -> None:
    """Registers a function that turns a front end's own marks into those of this
    module. `anabranch.export` calls it with each graph before it reads the marks."""
    scope.resolvers.append(resolve)


# Lines of the user's program


@dataclasses.dataclass(frozen=True)
class UserLine:
    """A line of the user's program, with the function that it is in."""

    file: str
    line: int
    function: str
    code: str


def hide_frames(path: str) -> None:
    """Frames of this file, or of files in this folder, no longer count as the user's."""
    location.hide(path)


def find_user_line(node: torch.fx.Node) -> UserLine | None:
    """The innermost line of the user's program behind a node; None when unknown."""
    found = location.location(node)
    return UserLine(**found) if found["file"] else None


def user_line(node: torch.fx.Node) -> str:
    """The same line for a message, as `m.py:12, in forward: x = x + y`; "" when
    unknown."""
    return location.user_line(node)


# Gears: sizes that come again

GearDim = gears.GearDim
MOST_GEAR_COMBINATIONS = gears.MOST_COMBINATIONS


def attach_gears(tensor: torch.Tensor, sizes: Mapping[int, Sequence[int]]) -> None:
    """`anabranch.set_gears` without its checks. `sizes` has the sizes of each dimension
    that has gears."""
    gear_sizes.attach(tensor, sizes)


def find_gears(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[GearDim]:
    """The gears of a Dynamo graph's inputs."""
    return gears.find(module, example_inputs)


def guard_gears(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    found: Sequence[GearDim],
) -> None:
    """Makes Dynamo compile again for sizes that the gears do not cover."""
    gears.guard(module, example_inputs, found)


def size_hint(size: int | torch.SymInt) -> int:
    """The size that a traced dimension has in the call that is being traced."""
    return gears.hint(size)


# Packages for exact shapes

StaticPackage = kernel_library.StaticPackage


def copy_package(package: StaticPackage, folder: str) -> None:
    """Copies the files of a package to a folder, which must not exist yet."""
    kernel_library.copy_files(package, folder)


class ExactShapes:
    """Makes packages of one graph for exact shapes. They are kept in a library that
    processes and models share.

    First say which graph: give `on_executable` to `compile_graph`, or call `describe`
    for a graph that PyTorch runs. Then call `compile` with the arguments of each call.
    """

    def __init__(self, config: config.Config) -> None:
        self._config = config
        self._executable: Any = None
        self._described: Description | None = None

    def on_executable(self, executable: Any, described: Description) -> None:
        """Adds packages to this executable: calls of their sizes then run in them."""
        self._executable, self._described = executable, described

    def describe(
        self, module: torch.fx.GraphModule, sources: Sequence[InputSource]
    ) -> None:
        """Describes a graph that has no executable. If the compiler cannot describe it,
        `compile` gives None."""
        with contextlib.suppress(symbols.Unsupported):
            self._described = graph.GraphReader(module, "static", sources).read()

    @contextlib.contextmanager
    def compile(
        self, arguments: Sequence[Any], records: Sequence[Any]
    ) -> Iterator[StaticPackage | None]:
        """The package for the shapes of these arguments, from the library or compiled
        now.

        Its folder exists inside the `with` block. None: PyTorch runs this graph.
        `records` is JSON that the library shows with the package.
        """
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
        """Adds the program to the executable. If `cache_compile` records this
        compilation, later processes add it too."""
        assert self._described is not None
        loaded = package.load(
            made.folder, self._described, self._config, check_hashes=False
        )
        self._executable.add(loaded)
        watching = observer.current()
        if watching is not None and made.key:
            watching.kernels.append(made.key)


def _sizes_of(described: Description, arguments: Sequence[Any]) -> dict[str, int]:
    """The value that each symbol of the graph has in a call with these arguments."""
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
    """Makes `readable_cache` find entries of a CachedMethod whose `index` is `name`."""
    entry_text.index_names.append(name)


def check_method(method: Any) -> types.MethodType:
    """The method, if it is the method of an nn.Module. ValueError: it is anything else,
    which cannot be cached."""
    return cached_method.check_method(method)


def code_digest(function: Any) -> str:
    """A hash of what a function does; for a callable without Python code, a hash of its
    name."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        return bytecode.code_digest(code)
    return cache.digest(getattr(function, "__qualname__", type(function).__name__))
