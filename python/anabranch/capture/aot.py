"""A Dynamo graph -> ATen graphs, by AOTAutograd, operators that matter whole."""

from __future__ import annotations

import contextlib
import functools
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_module_simplified
from torch.utils._python_dispatch import _disable_current_modes

from .. import _C
from ..describe import purity
from ..describe.graph import InputSource
from . import constants, observer, weight_only

aten = torch.ops.aten

# Compiles one ATen graph: (module, example inputs, where the inputs come from).
GraphCompiler = Callable[
    [torch.fx.GraphModule, Sequence[Any], Sequence[InputSource]], Callable[..., Any]
]

# Core ATen takes these apart; the compiler has a better lowering of the whole.
WHOLE = (
    aten.silu.default,
    aten._fused_rms_norm.default,
    aten.select_scatter.default,
    aten.roll.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    # Its decomposition is for inference: in the place of the logarithms of the
    # sums, which the backward pass reads, it gives the weights.
    aten._scaled_dot_product_flash_attention_for_cpu.default,
)

# Composite operators, which autograd takes apart before any table is asked.
# They stay whole only where no gradient is asked for.
WHOLE_COMPOSITES = (
    aten.linear.default,
    aten.scaled_dot_product_attention.default,
    aten.rms_norm.default,
)


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = _core_aten()
    for operator in (*WHOLE, *WHOLE_COMPOSITES):
        table.pop(operator, None)
    return table | weight_only.decompositions()


def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """The same for `ExportedProgram.run_decompositions`, which takes apart only
    the composite operators that the table names."""
    table = dict(core_aten_decompositions().items())
    for operator in (*WHOLE, *WHOLE_COMPOSITES):
        table.pop(operator, None)
    return table | weight_only.decompositions()


def _core_aten() -> dict[Any, Callable[..., Any]]:
    """The public table also lists all composite operators, which costs a tenth
    of a second and decides nothing here."""
    try:
        from torch._decomp import _core_aten_decompositions_post_autograd
    except ImportError:
        return dict(core_aten_decompositions().items())
    return dict(_core_aten_decompositions_post_autograd())


def aot(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_graph: GraphCompiler,
    freeze: bool | str,
    more_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    more_whole: Sequence[Any] = (),
) -> Callable[..., Any]:
    """Traces `module` and hands each ATen graph to `compile_graph`.
    `more_decompositions` win over those of this house; `more_whole` are composite
    operators that stay whole beside WHOLE_COMPOSITES."""
    training = _needs_gradients(module, example_inputs)
    with _disable_current_modes():
        sources = input_sources(module, example_inputs, bool(freeze) and not training)
    if freeze and not training:
        constants.guard(module, sources)

    def forward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        # Real tensors (constants) are handled here, so no mode may intervene.
        with _disable_current_modes():
            return compile_graph(graph, inputs, graph_sources(graph, sources))

    def backward(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with _disable_current_modes():
            return compile_graph(graph, inputs, graph_sources(graph, []))

    table = decompositions() | dict(more_decompositions or {})
    trace = functools.partial(_trace, module, example_inputs, table)
    if training:
        return trace(forward, backward)
    with whole_composites(more_whole):
        if not purity.may_write(module, example_inputs):
            stateless = len(sources) == len(example_inputs)
            traced = _trace_as_it_is(trace, forward, stateless)
            if traced is not None:
                if observer.current() is None:
                    constants.leave(module, sources, traced)
                return traced
        return trace(forward, backward)


def _trace_as_it_is(
    trace: Callable[..., Any], forward: Callable[..., Any], stateless: bool
) -> Callable[..., Any] | None:
    """Without functionalization, which takes a third of the time of a trace with
    symbolic sizes and changes nothing where nothing is written in place. None
    when the trace shows that it was needed, or fails."""
    compiling = False
    direct: Callable[..., Any] | None = None
    # The wrapper switches autocast off for the operators that fall back, and
    # hands over the module's own tensors.
    wraps = torch._C._is_any_autocast_enabled() or not stateless

    def compile_pure(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        nonlocal compiling, direct
        if not purity.is_pure(graph):
            raise purity.Impure
        compiling = True
        compiled = forward(graph, inputs)
        is_program = isinstance(compiled, _C.Executable)
        if is_program and not wraps and _passes_through(graph):
            direct = compiled
        return compiled

    try:
        traced = trace(compile_pure, disable_functionalization=True)
        return direct or traced
    except Exception:
        # What is wrong with the graph itself shows again in the other trace.
        if compiling:
            raise
        return None


def _passes_through(graph: torch.fx.GraphModule) -> bool:
    """Whether AOTAutograd's wrapper hands on what it gets, as it is: then calls
    go without it, which saves more than the runtime's own part of a small call."""
    context = torch._guards.TracingContext.try_get()
    about = context.fw_metadata if context else None
    if about is None:
        return False
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    order = [getattr(node.meta.get("desc"), "idx", None) for node in inputs]
    return (
        order == list(range(len(about.input_info)))
        and len(about.output_info) == len(graph.graph.output_node().args[0])
        and not about.num_outputs_aliased
        and not about.num_intermediate_bases
        and not about.num_mutated_inp_runtime_indices
        and not about.is_rng_op_functionalized
        and not about.tokens
    )


def _trace(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    table: dict[Any, Callable[..., Any]],
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    **how: Any,
) -> Callable[..., Any]:
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


def _needs_gradients(module: torch.nn.Module, inputs: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    tensors = (*inputs, *module.parameters(), *module.buffers())
    return any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors)


@contextlib.contextmanager
def whole_composites(more: Sequence[Any] = ()) -> Iterator[None]:
    """Keeps composite operators from being taken apart while tracing. PyTorch
    has the mechanism for torch.export; without it they are taken apart, and
    only speed is lost."""
    try:
        from torch.export.exported_program import _override_composite_implicit_decomp
    except ImportError:
        yield
        return
    keep = {op: _stay_whole for op in (*WHOLE_COMPOSITES, *more)}
    with _override_composite_implicit_decomp(keep):
        yield


def _stay_whole(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


# Where inputs come from


def input_sources(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], freeze: bool
) -> list[InputSource]:
    """One source for each argument of the function that AOTAutograd traces."""
    sources = [
        _state(name, "parameter", value, freeze)
        for name, value in module.named_parameters(remove_duplicate=False)
    ]
    sources += [
        _state(name, "buffer", value, freeze)
        for name, value in module.named_buffers(remove_duplicate=False)
    ]
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, example_inputs):
        sources.append(_dynamo_source(node, value, freeze))
    return sources


def _dynamo_source(node: torch.fx.Node, value: Any, freeze: bool) -> InputSource:
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    if source is None or not isinstance(value, torch.Tensor):
        return InputSource(str(node.target) if source is None else _label(source))
    is_state = source.guard_source.is_unspecialized_nn_module() or isinstance(
        value, torch.nn.Parameter
    )
    if not is_state:
        return InputSource(_label(source))
    kind = "parameter" if isinstance(value, torch.nn.Parameter) else "buffer"
    return _state(_label(source), kind, value, freeze)


def _state(label: str, kind: str, value: torch.Tensor, freeze: bool) -> InputSource:
    if not freeze:
        return InputSource(label, kind)
    return InputSource(label, kind, value.detach(), weakref.ref(value))


def _label(source: Any) -> str:
    """`L['self']._modules['fc']._parameters['weight']` is `fc.weight`."""
    name = source.name if isinstance(source.name, str) else source.name()
    name = re.sub(
        r"\b_(modules|parameters|buffers)\[['\"]([^'\"]+)['\"]\]", r"\2", name
    )
    name = re.sub(r"^L\[['\"]([^'\"]+)['\"]\]", r"\1", name)
    # Dynamo calls a module that is compiled by itself "fn".
    return name.removeprefix("self.").removeprefix("fn.")


def graph_sources(
    graph: torch.fx.GraphModule, sources: Sequence[InputSource]
) -> list[InputSource]:
    """The sources of a graph's placeholders. AOTAutograd may add, drop and
    reorder arguments and says so in descriptors; a placeholder without one is
    an input like any other. What the graph writes to is never frozen, nor what
    shares memory with it."""
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
        if node in written and source.constant is not None:
            memory.add(_memory(source.constant))
    return [
        InputSource(source.label, source.kind)
        if source.constant is not None and _memory(source.constant) in memory
        else source
        for source in found
    ]


def _source_of(desc: Any, sources: Sequence[InputSource]) -> InputSource | None:
    """What AOTAutograd's descriptor of a placeholder names: an argument, or a tensor
    inside of an argument that is a tensor subclass."""
    index = getattr(desc, "idx", None)
    if isinstance(index, int):
        return sources[index] if index < len(sources) else None
    name, base = getattr(desc, "attr", None), getattr(desc, "base", None)
    outer = _source_of(base, sources) if base is not None else None
    if outer is None or not isinstance(name, str):
        return None
    label = f"{outer.label}.{name}"
    whole = outer.owner() if outer.owner is not None else None
    inner = getattr(whole, name, None)
    if outer.constant is None or not isinstance(inner, torch.Tensor):
        return InputSource(label, outer.kind)
    return InputSource(label, outer.kind, inner.detach(), weakref.ref(inner))


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata
