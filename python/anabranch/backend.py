"""The two entries of the compiler: torch.compile(model, backend="anabranch") and
anabranch.compile(model)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._guards import TracingContext

from . import _C, list_arguments, purity
from .capture import (
    number_arguments,
    observer,
    quiet_code,
    sharing,
    watched_weights,
)
from .capture.aot import aot
from .capture.complex_parts.rewrite import rewrite
from .capture.eager_graph import run_eagerly
from .capture.frames import takes_recurrent_layers, takes_run_sizes
from .capture.handmade import complete
from .capture.partition import Parts
from .capture.scales import exponents
from .collectives import overlap
from .config import Config, resolve
from .describe.description import Description, InputSource
from .describe.graph import GraphReader
from .describe.small_sizes import exception
from .describe.symbol_table import SMALLEST_SYMBOLIC, admit_small
from .describe.symbols import Unsupported
from .errors import OptionError
from .guards import passed
from .location import user_line
from .marks import torch_streams
from .marks.mark_order import Order
from .marks.super_kernel import check_parts
from .notices import cut_graphs
from .packages import cache, function
from .report import record_eager, record_parts, say
from .saved import graph as saved_graph
from .saved import keys, saving
from .saved.program import read_files
from .shapes import gears, small_sizes, unit_sizes

_C.use_torch()


@takes_recurrent_layers
def anabranch(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """The Dynamo backend: torch.compile calls it with each graph that Dynamo captures.

    module          Dynamo's graph
    example_inputs  its inputs in the call that is traced: tensors and symbolic ints
    mode            "default", "reduce-overhead", "max-autotune" or
                    "max-autotune-no-cudagraphs"; the last two set `freeze`
    options         fields of Config by name; they win over `mode` and `config`
    config          the options as one object
    decompositions  functions by operator; they win over Anabranch's own

    Returns a function of the graph's inputs. PyTorch runs graphs, or parts of one, that
    the compiler cannot describe; `last_report()` says why. OptionError: an unknown mode
    or option, a wrong value, or gears that the inputs do not have. CompileError: the
    graph asks for something impossible.
    """
    try:
        settings = resolve(options, mode, config)
    except (TypeError, ValueError) as error:
        raise OptionError(str(error)) from error
    _guard_forward_mode()
    if list_arguments.are_among(example_inputs):
        flat = functools.partial(
            anabranch, config=settings, decompositions=decompositions
        )
        return list_arguments.compile_flat(module, example_inputs, flat)
    if reason := _only_pytorch(example_inputs):
        if (watching := observer.current()) is not None:
            watching.refuse(f"PyTorch runs it: {reason}")
        record_eager("graph", reason, settings.explain or settings.notices)
        return keys.with_artefact(module.forward, module, settings.explain)
    found = gears.find(module, example_inputs)
    if found:
        gears.check(found, settings.gears_pad)
        gears.combine(found, settings.gears_merge)
        gears.guard(module, example_inputs, found, settings.gears_pad)
    numbers = number_arguments.traced_dtypes(module, example_inputs)
    with small_sizes.noting() as symbols:
        call = _traced(module, example_inputs, settings, decompositions, found)
    quiet_code.begin()
    if observer.current() is None and not saving.is_asked():
        passed.install()
    call = number_arguments.as_traced(call, module, numbers)
    if symbols:
        again = functools.partial(
            anabranch, config=settings, decompositions=decompositions
        )
        call = small_sizes.serve(call, module, symbols, again)
    return keys.with_artefact(call, module, settings.explain)


def _traced(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    config: Config,
    decompositions: Mapping[Any, Callable[..., Any]] | None,
    geared: Sequence[gears.GearDim],
) -> Callable[..., Any]:
    """The compiled function of a Dynamo graph."""
    compile_one = functools.partial(compile_graph, config=config, geared=geared)

    def compile_all() -> Callable[..., Any]:
        return aot(
            module,
            example_inputs,
            compile_one,
            config.freeze,
            decompositions,
            watch=bool(config.watch) and not geared,
            key="" if decompositions else _key(config, geared),
        )

    if purity.may_write(module, example_inputs):
        return sharing.watch(module, example_inputs, compile_all, config.explain)
    return compile_all()


def _key(config: Config, geared: Sequence[gears.GearDim]) -> str:
    """A digest of everything except the graph that a compilation depends on."""
    options = {n: v for n, v in config.as_dict().items() if n not in cache.WATCHING}
    sizes = [(gear.input, gear.dim, gear.sizes) for gear in geared]
    return cache.digest(cache.identity(), options, sizes)


def _guard_forward_mode() -> None:
    """Makes Dynamo compile again where forward-mode gradients begin or end."""
    if (context := TracingContext.try_get()) is not None:
        guard = GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL)
        context.guards_context.dynamo_guards.add(guard)


def _only_pytorch(example_inputs: Sequence[Any]) -> str:
    """Why only PyTorch can run a graph with these inputs, which AOTAutograd would trace
    as if they were plain tensors. Empty if nothing forbids it. Dynamo compiles again
    where one of these facts changes."""
    tensors = [x for x in example_inputs if isinstance(x, torch.Tensor)]
    if any(tensor.is_mkldnn for tensor in tensors):
        return "an input has oneDNN's opaque layout"
    if any(tensor._is_zerotensor() for tensor in tensors):
        return "an input is a tensor of zeros without memory"
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode gradients are computed"
    return ""


def compile(
    model: Any,
    *,
    config: Config | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    guard_filter_fn: Callable[[Any], Sequence[bool]] | None = None,
    **options: Any,
) -> Any:
    """torch.compile(model, backend="anabranch"), with the options as keywords.

    model            an nn.Module or a function of tensors
    config           the options as one object; default: Config()
    dynamic          as of torch.compile; None: what the option `shapes` asks for
    fullgraph        as of torch.compile: a graph break is an error
    guard_filter_fn  as in torch.compile's options: which guards calls check
    options          fields of Config by name; they win over `config`

    Returns the compiled model, which takes the arguments of `model`. Nothing is
    compiled before its first call. OptionError: an unknown option, or a wrong value.
    """
    try:
        settings = resolve(options, config=config)
    except (TypeError, ValueError) as error:
        raise OptionError(str(error)) from error
    backend = functools.partial(anabranch, config=settings)
    compiled = torch.compile(
        model,
        backend=takes_run_sizes(backend) if settings.run_sizes else backend,
        dynamic=settings.dynamic() if dynamic is None else dynamic,
        fullgraph=fullgraph,
        options={"guard_filter_fn": guard_filter_fn} if guard_filter_fn else None,
    )
    if settings.shapes == "tiered" and fullgraph:
        return unit_sizes.compile_for_ones_too(compiled, settings.explain)
    return compiled


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    sources: Sequence[InputSource],
    *,
    config: Config,
    geared: Sequence[gears.GearDim] = (),
    on_executable: Callable[[_C.Executable, Description], None] | None = None,
    on_package: Callable[[str], None] | None = None,
) -> Callable[..., Any]:
    """Compiles one ATen graph. PyTorch runs the graph, or parts of it, if it has no
    description.

    `on_executable` gets the executable before any wrapper is put around it.
    `on_package` gets the folder of the package while the folder exists.
    """
    name = _graph_name()
    torch_streams.translate(module)
    complete(module)
    exponents.rewrite(module)
    rewrite(module)
    overlap.arrange(module, config)
    unit_sizes.notice([])
    watching = observer.current()
    sources = watched_weights.choose(module, sources, config.watch)
    try:
        described = GraphReader(module, name, sources, Order.configured(config)).read()
    except Unsupported as reason:
        if watching is not None:
            watching.refuse(f"PyTorch runs it: {reason}")
        return _compile_parts(module, sources, name, str(reason), config)
    unit_sizes.notice(described.graph["symbols"])
    # A replay of a method refuses these sizes, and gears name others.
    if watching is None and not geared:
        _admit_small(module, described, config)
    bindings = gears.bindings(geared, gears.combine(geared, config.gears_merge))

    def found(folder: str, report: dict[str, Any]) -> None:
        if watching is not None:
            watching.package(folder, report)
        if on_package is not None:
            on_package(folder)

    built = _compile_described(module, sources, described, config, bindings, found)
    if built is None:
        record_eager(name, f"stopped after {config.stop}", config.explain)
        return run_eagerly(module, sources)
    if on_executable is not None:
        on_executable(built.executable, described)
    if watching is not None:
        watching.graph(module, described, sources)
    return built.call


def _compile_described(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    described: Description,
    config: Config,
    bindings: Sequence[gears.Binding] = (),
    on_package: Callable[[str, dict[str, Any]], None] | None = None,
) -> function.Built | None:
    """Compiles the description of `module`; None if the compiler was told to stop
    early. The function is an artefact where PyTorch saves it."""
    files: dict[str, bytes] = {}

    def found(folder: str, report: dict[str, Any]) -> None:
        if on_package is not None:
            on_package(folder, report)
        if saving.is_on():
            files.update(read_files(folder))

    built = function.build(described, config, bindings, found)
    if built is None or not saving.is_on():
        return built
    saved = saved_graph.of_program(
        module, sources, described, config, bindings, files, built.call
    )
    return built._replace(call=saved)


def _compile_parts(
    module: torch.fx.GraphModule,
    sources: Sequence[InputSource],
    name: str,
    reason: str,
    config: Config,
) -> Callable[..., Any]:
    """Compiles the parts of a graph that have a description; PyTorch runs the rest."""
    sources = list(map(watched_weights.unwatched, sources))

    def compile_part(
        part: torch.fx.GraphModule, sources: Sequence[InputSource], number: int
    ) -> Callable[..., Any]:
        part_name = f"{name}_part{number}"
        try:
            described = GraphReader(
                part, part_name, sources, Order.configured(config)
            ).read()
        except Unsupported as refusal:
            record_eager(part_name, str(refusal), config.explain)
            return run_eagerly(part, sources)
        _admit_small(part, described, config)
        built = _compile_described(part, sources, described, config)
        return run_eagerly(part, sources) if built is None else built.call

    parts = Parts(module, sources, compile_part, reason)
    if parts.whole is None:
        check_parts([], module.graph.nodes, reason)
        record_eager(name, reason, config.explain or config.notices)
        return run_eagerly(module, sources)
    report = record_parts(name, reason, parts.count, parts.outside, config.explain)
    if not saving.is_on():  # which pickles the graph
        cut_graphs.watch(parts.whole, report, config.notices)
    return run_eagerly(parts.whole, sources)


def _admit_small(
    module: torch.fx.GraphModule, described: Description, config: Config
) -> None:
    """Lets the program of a graph run sizes of zero and one, if it computes them like
    all other sizes."""
    symbols = described.graph["symbols"]
    if not any(symbol.get("min") == SMALLEST_SYMBOLIC for symbol in symbols):
        return
    if (node := exception(module)) is None:
        admit_small(symbols)
        return
    small_sizes.note(symbols)
    if config.explain:
        say(
            f"{described.graph['name']}: {node.target} may treat a size of zero or one"
            f" in another way\n  {user_line(node)}"
        )


def _graph_name() -> str:
    from torch._functorch.aot_autograd import get_aot_graph_name

    return get_aot_graph_name()
