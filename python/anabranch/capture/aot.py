"""Traces a Dynamo graph to ATen graphs with AOTAutograd, and keeps operators whole that
the compiler lowers as a whole."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.exc import RestartAnalysis
from torch._functorch.aot_autograd import aot_module_simplified
from torch.utils._python_dispatch import _disable_current_modes

from .. import _C, dynamo_lock, parameter_file, purity, scratch
from ..describe.description import InputSource
from ..describe.storages import check_parts, check_places
from ..describe.written import Misplaced, check_views
from ..report import record_eager
from ..saved import keys, saving
from ..shapes import small_sizes
from . import (
    composites,
    constants,
    inlining,
    kept_whole,
    observer,
    region_updates,
    sharing,
    whole_operators,
)
from .decompositions import (
    bags,
    bessel,
    checks,
    distances,
    histograms,
    identity,
    interpolation,
    quantized_values,
    refusals,
    refused_writes,
    scaled_products,
    selections,
    special_functions,
    tensor_lists,
    transformer_layers,
    weight_only,
    windows,
)
from .eager_graph import misdescribed_operator, run_eagerly
from .flex import calls as flex
from .input_sources import InputSources, graph_sources, input_sources
from .recurrent import operators as recurrent
from .traces import known_results, storage_offsets

aten = torch.ops.aten

# Compiles one ATen graph: (module, example inputs, where the inputs come from).
GraphCompiler = Callable[
    [torch.fx.GraphModule, Sequence[Any], Sequence[InputSource]], Callable[..., Any]
]


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


# The compiler's lowering of these operators is better than the operators that they
# decompose to.
WHOLE = tuple(map(_overload, whole_operators.NAMES))


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    return _with_own(_core_aten())


@functools.cache
def all_decompositions() -> dict[Any, Callable[..., Any]]:
    """`decompositions()`, and those of the operators that Dynamo and AOTAutograd keep
    whole."""
    return decompositions() | kept_whole.PARTS


def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """The same table for `ExportedProgram.run_decompositions`, which takes apart only
    the composite operators that the table names."""
    table = _with_own(dict(core_aten_decompositions().items()))
    return table | bags.of_exports() | kept_whole.PARTS


def _with_own(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """PyTorch's table with Anabranch's own decompositions, and without the operators that
    stay whole."""
    for operator in WHOLE:
        table.pop(operator, None)
    own = (
        weight_only,
        scaled_products,
        quantized_values,
        identity,
        interpolation,
        special_functions,
        bessel,
        checks,
        transformer_layers,
        selections,
        histograms,
        windows,
        tensor_lists,
        bags,
        distances,
    )
    for module in own:
        table |= module.decompositions()
    # PyTorch draws the numbers of `bernoulli` either way, and checks its probabilities.
    table.pop(aten.bernoulli.default, None)
    return refusals.checked(table)


def _core_aten() -> dict[Any, Callable[..., Any]]:
    """The decompositions to core ATen operators. The public table also lists all
    composite operators; a trace takes those apart without it, and building the list
    takes a tenth of a second."""
    try:
        from torch._decomp import _core_aten_decompositions_post_autograd
    except ImportError:
        return dict(core_aten_decompositions().items())
    return dict(_core_aten_decompositions_post_autograd())


@dynamo_lock.held()
def aot(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_graph: GraphCompiler,
    freeze: bool | str,
    more_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    more_whole: Sequence[Any] = (),
    watch: bool = False,
    key: str = "",
) -> Callable[..., Any]:
    """Traces `module` and hands each ATen graph to `compile_graph`, with its parameters
    and buffers frozen (`freeze`), watched (`watch`) or as any input. Where gradients are
    computed they are inputs.

    `more_decompositions` win over Anabranch's own. `more_whole` are composite operators
    that stay whole in addition to WHOLE. `key` names what `compile_graph` does, for
    AOTAutograd's cache; without it, no later trace finds this one there.
    """
    storage_offsets.fill_diagonals_of_views(module)
    training = _needs_gradients(module, example_inputs)
    if freeze == "move" and not training:
        with _disable_current_modes():
            _move_weights(module, example_inputs)
    with _disable_current_modes():
        sources = input_sources(
            module,
            example_inputs,
            bool(freeze) and not training,
            watch and not training,
        )
    saves = saving.is_asked() and _can_be_saved(module, example_inputs)
    if freeze and not training and not saves:
        constants.guard(module, sources.arguments)

    table = decompositions() | dict(more_decompositions or {})
    forward, backward = _compilers(compile_graph, sources, saves, table)
    trace = functools.partial(_trace, module, example_inputs, table)

    def inference() -> Callable[..., Any]:
        straight = _Straight(forward, sources, len(example_inputs))
        traced = None
        if not purity.may_write(module, example_inputs):
            with known_results.told(module):
                traced = _trace_as_it_is(trace, straight, table)
        if traced is None:
            traced = trace(straight, backward)
        if straight.program is None:
            return traced
        # A graph that is compiled again for small sizes keeps its arguments.
        if observer.current() is None and not small_sizes.are_noted():
            constants.stop_fetching(module, sources.arguments, straight.program)
        return straight.program

    try:
        refused_writes.check_writes(module)
        with keys.keyed(saves, key, module, sources):
            if training:
                return trace(forward, backward)
            with whole_composites(more_whole):
                return inference()
    except (Misplaced, refusals.Refused) as reason:
        return _run_by_pytorch(module, str(reason))
    except RuntimeError as error:
        found = (why for words, why in _UNTRACED.items() if words in str(error))
        if (why := next(found, None)) is None:
            raise
        return _run_by_pytorch(module, why)


# What PyTorch runs, and a trace refuses with an error of these words.
_UNTRACED = {
    "as_strided() is non-compositional": "it updates an as_strided() of a view",
    "being mutated that has internal overlap": (
        "it updates a tensor whose elements share memory"
    ),
}


def _run_by_pytorch(module: torch.fx.GraphModule, reason: str) -> Callable[..., Any]:
    if (watching := observer.current()) is not None:
        watching.refuse(f"PyTorch runs it: {reason}")
    record_eager("graph", reason, explain=False)
    return module.forward


def flatten(
    graph: torch.fx.GraphModule, table: Mapping[Any, Callable[..., Any]]
) -> None:
    """Puts operators in the place of the calls that run subgraphs, where the operators
    can say the same."""
    region_updates.return_updates(graph)
    inlining.inline(graph)
    flex.inline(graph, table)


def _can_be_saved(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether PyTorch may save a Dynamo graph. A graph that writes in place holds for
    the memory that its arguments share, which no artefact can compare."""
    return observer.current() is None and not (
        purity.may_write(module, example_inputs) and sharing.suspicious(example_inputs)
    )


def _compilers(
    compile_graph: GraphCompiler,
    sources: InputSources,
    saves: bool,
    table: Mapping[Any, Callable[..., Any]],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The compilers of forward and of backward graphs, as AOTAutograd calls them. They
    return artefacts if PyTorch `saves` the graphs."""

    def forward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        flatten(graph, table)
        storage_offsets.mend_slices(graph.graph)
        check_views(graph.graph.nodes)
        check_places(graph.graph.nodes)
        check_parts(graph.graph.nodes)
        refusals.check_calls(graph.graph)
        # The trace ends here: constants are real tensors, so no tracing mode may
        # intercept operators on them.
        with _disable_current_modes(), saving.switched(saves):
            return compile_graph(graph, inputs, graph_sources(graph, sources))

    def compile_backward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        flatten(graph, table)
        with _disable_current_modes(), saving.switched(saves):
            if (operator := misdescribed_operator(graph)) is not None:
                reason = f"PyTorch traces wrong shapes for {operator} of bf16"
                record_eager("graph", reason, explain=False)
                return run_eagerly(graph)
            return compile_graph(graph, inputs, graph_sources(graph, InputSources()))

    def backward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return _untraced(_untraced(compile_backward)(graph, inputs))

    return forward, backward


def _move_weights(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Moves the tensors that will be frozen out of memory."""
    found = [source.owner for source in input_sources(module, inputs, True)]
    owners = [owner() for owner in found if owner is not None]
    parameter_file.move([t for t in owners if t is not None], scratch.place())


def _untraced(call: Callable[..., Any]) -> Callable[..., Any]:
    """Hides `call` from Dynamo.

    Where a compiled function calls backward(), PyTorch compiles the first backward pass
    and runs each one inside a frame whose calls Dynamo traces. Dynamo would trace the
    compiler.
    """
    if isinstance(call, _C.Executable):
        return call  # the function has no Python code that Dynamo could trace
    hidden: Any = torch._dynamo.disable(call, reason="it belongs to a backward pass")
    if getattr(call, "_boxed_call", False):
        hidden._boxed_call = True
    return hidden


class _Straight:
    """A compiler of forward graphs for AOTAutograd, which notes the program that calls
    may run without AOTAutograd's wrapper. That saves more than the runtime's own part of
    a small call.

    program  of the last graph; None: its calls need the wrapper
    """

    def __init__(
        self, forward: Callable[..., Any], sources: InputSources, arguments: int
    ) -> None:
        self.program: _C.Executable | None = None
        self._forward = forward
        self._arguments = arguments
        # The wrapper also switches autocast off for the operators that fall back, and
        # passes the module's own tensors.
        self._wraps = torch._C._is_any_autocast_enabled() or bool(sources.state)

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        compiled = self._forward(graph, inputs)
        self.program = None
        context = torch._guards.TracingContext.try_get()
        about = context.fw_metadata if context else None
        if self._wraps or about is None or not isinstance(compiled, _C.Executable):
            return compiled
        if _passes_through(graph, about, self._arguments):
            self.program = compiled
        return compiled


def _passes_through(graph: torch.fx.GraphModule, about: Any, arguments: int) -> bool:
    """Whether AOTAutograd's wrapper, made by what it knows `about` the graph, passes this
    many arguments, and the results, on unchanged. A program counts its writes to
    arguments itself."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    order = [getattr(node.meta.get("desc"), "idx", None) for node in inputs]
    return (
        order == list(range(arguments))
        and len(about.input_info) == arguments
        and len(about.output_info) == len(graph.graph.output_node().args[0])
        and not about.num_outputs_aliased
        and not about.num_intermediate_bases
        and not about.num_mutated_inp_runtime_indices
        and not about.is_rng_op_functionalized
        and about.grad_enabled_mutation is None
        and not about.tokens
    )


def _trace_as_it_is(
    trace: Callable[..., Any],
    straight: _Straight,
    table: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Any] | None:
    """Traces without functionalization, which takes a third of the time of a trace with
    symbolic sizes and changes nothing in a graph without in-place writes. None: the
    trace shows that functionalization is needed, or fails."""
    compiling = False

    def compile_pure(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        nonlocal compiling
        flatten(graph, table)
        if not purity.is_pure(graph):
            raise purity.Impure
        compiling = True
        return straight(graph, inputs)

    try:
        traced: Callable[..., Any] = trace(compile_pure, disable_functionalization=True)
        return traced
    except (RestartAnalysis, refusals.Refused):
        # The trace has shown Dynamo what the graph must not have as a number, or that
        # PyTorch runs the graph.
        raise
    except Exception:
        # An error of the graph itself occurs again in the trace with functionalization,
        # which reports it.
        if compiling:
            raise
        inlining.forget_traces()
        return None


def _trace(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    table: dict[Any, Callable[..., Any]],
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    **how: Any,
) -> Callable[..., Any]:
    forward = keys.compiler(forward)
    inlining.keep_pure_traces()
    with interpolation.in_traces(), storage_offsets.kept(module, example_inputs):
        return aot_module_simplified(
            module,
            list(example_inputs),
            fw_compiler=forward,
            bw_compiler=backward,
            inference_compiler=forward,
            decompositions=table,
            keep_inference_input_mutations=True,
            **how,
        )


def _needs_gradients(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled() and not _enables_gradients(module):
        return False
    tensors = (*inputs, *module.parameters(), *module.buffers())
    return any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors)


# Calls by which a graph enables gradients: the function and its first argument. Leaving
# inference mode enables them too.
_ENABLING = (
    (torch._C._set_grad_enabled, True),
    (torch.autograd.grad_mode._enter_inference_mode, False),
)


def _enables_gradients(module: torch.fx.GraphModule) -> bool:
    return any(
        (node.target, node.args[0]) in _ENABLING
        for part in module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if node.op == "call_function" and node.args
    )


@functools.cache
def _composites() -> tuple[Any, ...]:
    """Operators of WHOLE that no table decomposes: autograd takes them apart. They stay
    whole only where no gradient is asked for."""
    table = _core_aten()
    return tuple(operator for operator in WHOLE if operator not in table)


def whole_composites(
    more: Sequence[Any] = (),
) -> contextlib.AbstractContextManager[None]:
    """Keeps composite operators whole while tracing."""
    return composites.kept((*_composites(), *more), recurrent.RULES)
