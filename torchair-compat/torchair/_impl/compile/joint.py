"""Forward and backward as one graph: the option aot_config_enable_joint_graph.

The graph computes the outputs and, with them, the gradients of the loss. The backward
pass only multiplies these by the gradient that it gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from ..errors import UnsupportedOption
from ..options.config import CompilerConfig, raw

__all__ = ["compile_joint", "wants_joint"]

Compiled = Callable[..., Any]

_OPTION = "config.experimental_config.aot_config_output_loss_index"


def wants_joint(config: CompilerConfig, example_inputs: Sequence[Any]) -> bool:
    """Whether the option is on and an input asks for a gradient."""
    if not raw(config, "experimental_config.aot_config_enable_joint_graph"):
        return False
    return torch.is_grad_enabled() and bool(_trained(example_inputs))


def _trained(inputs: Sequence[Any]) -> list[int]:
    return [
        n
        for n, value in enumerate(inputs)
        if isinstance(value, torch.Tensor) and value.requires_grad
    ]


def compile_joint(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    compile_one: Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled],
) -> Compiled:
    """The function that runs a Dynamo graph whose parameters are inputs.

    `compile_one` gets the joint graph, which asks for no gradients. UnsupportedOption:
    the output that `aot_config_output_loss_index` names is no scalar with a gradient.
    """
    place = raw(config, "experimental_config.aot_config_output_loss_index")
    trained = _trained(example_inputs)

    def joint(*inputs: Any) -> list[Any]:
        given = [
            value.detach().requires_grad_(n in trained)
            if isinstance(value, torch.Tensor) and value.is_floating_point()
            else value
            for n, value in enumerate(inputs)
        ]
        with torch.enable_grad():
            outputs = [*module(*given)]
            loss = _loss(outputs, place)
            wanted = [given[n] for n in trained]
            gradients = torch.autograd.grad(loss, wanted, materialize_grads=True)
        outputs = [_detached(value) for value in outputs]
        return [*outputs, *gradients]

    mode = detect_fake_mode(example_inputs)
    fakes = [_fake(value, mode) for value in example_inputs]
    with torch.enable_grad(), mode or contextlib.nullcontext():
        traced = make_fx(joint)(*fakes)
    with torch.no_grad():
        compiled = compile_one(traced, [_detached(v) for v in example_inputs])
    return _with_gradients(compiled, trained, place)


def _fake(value: Any, mode: Any) -> Any:
    """The value as Dynamo traced it, with its symbolic sizes."""
    if mode is None or not isinstance(value, torch.Tensor):
        return value
    if isinstance(value, FakeTensor):
        return value
    context = TracingContext.try_get()
    sizes = context.tensor_to_context.get(value) if context else None
    if sizes is None:
        return mode.from_tensor(value, static_shapes=True)
    return mode.from_tensor(value, symbolic_context=sizes)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _loss(outputs: Sequence[Any], place: Any) -> torch.Tensor:
    if not isinstance(place, int) or not -len(outputs) <= place < len(outputs):
        raise UnsupportedOption(
            f"{_OPTION} is {place!r}, and the graph has {len(outputs)} outputs"
        )
    loss = outputs[place]
    is_scalar = isinstance(loss, torch.Tensor) and loss.numel() == 1
    if not is_scalar or not loss.requires_grad:
        raise UnsupportedOption(
            f"{_OPTION} is {place}: that output must be one number that depends on an"
            " input which asks for gradients"
        )
    return loss


def _with_gradients(compiled: Compiled, trained: list[int], place: int) -> Compiled:
    class Joint(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            with torch.no_grad():
                results = compiled(*map(_detached, inputs))
            count = len(results) - len(trained)
            outputs, gradients = results[:count], results[count:]
            ctx.save_for_backward(*gradients)
            ctx.count = len(inputs)
            ctx.place = place % count
            others = [v for n, v in enumerate(outputs) if n != ctx.place]
            tensors = [v for v in others if isinstance(v, torch.Tensor)]
            ctx.mark_non_differentiable(*tensors)
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            wanted: list[Any] = [None] * ctx.count
            for n, gradient in zip(trained, ctx.saved_tensors):
                wanted[n] = gradient * given[ctx.place]
            return tuple(wanted)

    return Joint.apply
