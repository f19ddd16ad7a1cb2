"""The entry points of torchair: get_npu_backend, get_compiler, and the Dynamo backends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.fx
from torch._dynamo import register_backend
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from anabranch import extension
from anabranch.extension import InputSource

from ..device.traced_floats import with_constant_floats
from ..dump.debug_folder import DebugFolder
from ..errors import wrapping
from ..ge.returned_writes import return_nothing
from ..options.config import CompilerConfig
from ..options.engine import warn_of_mode
from ..options.flat import AnyConfig, apply_options, tree_of
from ..options.flat import CompilerConfig as FlatConfig
from . import gears
from .fusions import MATCHED
from .fx_compiler import NpuFxCompiler
from .graph_compiler import freezes
from .joint import compile_joint, wants_joint
from .weight_blocks import labels

__all__ = [
    "compile_flat",
    "get_compiler",
    "get_flat_backend",
    "get_npu_backend",
    "npu",
    "npugraph_ex",
]

Compiled = Callable[..., Any]


def get_npu_backend(
    *,
    compiler_config: AnyConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
) -> functools.partial[Compiled]:
    """The backend for torch.compile.

    compiler_config        a CompilerConfig; None: the default
    custom_decompositions  functions by operator

    TypeError: compiler_config is something else.
    """
    given = CompilerConfig() if compiler_config is None else compiler_config
    warn_of_mode(tree_of(given))
    return functools.partial(
        npu, compiler_config=given, custom_decompositions=custom_decompositions
    )


def get_flat_backend(
    *,
    compiler_config: FlatConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
) -> functools.partial[Compiled]:
    """npugraph_ex.get_npu_backend: get_npu_backend with a flat configuration."""
    return get_npu_backend(
        compiler_config=compiler_config or FlatConfig(),
        custom_decompositions=custom_decompositions,
    )


def get_compiler(compiler_config: AnyConfig | None = None) -> Compiled:
    """A compiler of ATen graphs, for the argument `fw_compiler` of
    aot_module_simplified.

    The compiled graph takes its inputs one by one. It returns the list of outputs, or a
    single value if the graph returns one.
    """
    config = tree_of(compiler_config)

    def compile_one(
        module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Compiled:
        with wrapping():
            nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
            if not all("val" in node.meta for node in nodes):
                FakeTensorProp(module).propagate(*example_inputs)
            is_single = _return_tuple(module)
            sources = [InputSource(str(node.target)) for node in nodes]
            boxed = NpuFxCompiler(config)(module, example_inputs, sources)

        tensors = [isinstance(n.meta.get("val"), torch.Tensor) for n in nodes]

        def call(*arguments: Any) -> Any:
            _check_tensors(tensors, arguments)
            results = boxed(list(arguments))
            return results[0] if is_single else results

        return call

    return compile_one


def _check_tensors(wanted: Sequence[bool], arguments: Sequence[Any]) -> None:
    for place, (is_wanted, value) in enumerate(zip(wanted, arguments)):
        if is_wanted and not isinstance(value, torch.Tensor):
            wrong = "is None" if value is None else f"is not a Tensor: {type(value)}"
            raise RuntimeError(f"inputs of the graph: element {place} {wrong}")


def _return_tuple(module: torch.fx.GraphModule) -> bool:
    """Makes a graph that returns one value return a tuple. Returns whether it did."""
    (result,) = module.graph.output_node().args
    if isinstance(result, list | tuple):
        return False
    module.graph.output_node().args = ((result,),)
    module.recompile()
    return True


@register_backend(name="npu")
@with_constant_floats
def npu(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler_config: AnyConfig | None = None,
    custom_decompositions: Mapping[Any, Compiled] = MappingProxyType({}),
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """The Dynamo backend "npu"."""
    config = tree_of(compiler_config)
    with wrapping():
        if options:
            # A flat configuration has options that the tree does not have.
            given = config if compiler_config is None else compiler_config
            apply_options(given, options)
        return_nothing(module)
        geared = gears.find(module, example_inputs, config)
        debug = DebugFolder.of_model(module)
        compile_one = NpuFxCompiler(
            config,
            geared=geared,
            debug=debug,
            in_blocks=labels(module, example_inputs),
        )
        trace = functools.partial(
            extension.trace,
            compile_one=compile_one,
            freeze=freezes(config),
            decompositions=custom_decompositions,
            whole=MATCHED,
        )
        if wants_joint(config, example_inputs):
            return compile_joint(module, example_inputs, config, trace)
        return trace(module, example_inputs)


@register_backend(name="npugraph_ex")
@with_constant_floats
def npugraph_ex(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """The Dynamo backend "npugraph_ex", for the capture path."""
    return npu(module, example_inputs, compiler_config=FlatConfig(), options=options)


def compile_flat(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Compiled:
    """npugraph_ex.compile_fx: compiles one ATen graph with flat options. ValueError: an
    option does not exist."""
    config = FlatConfig()
    apply_options(config, options or {})
    if example_inputs is None:
        placeholders = gm.graph.find_nodes(op="placeholder")
        example_inputs = [node.meta.get("val") for node in placeholders]
    return get_compiler(config)(gm, example_inputs)
