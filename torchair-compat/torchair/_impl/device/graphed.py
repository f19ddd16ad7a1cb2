"""torch.npu.make_graphed_callables: functions and modules that a captured graph runs,
forward and backward, between eager code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from .tape import NPUGraph, graph

__all__ = ["make_graphed_callables"]


def make_graphed_callables(
    callables: Any,
    sample_args: Sequence[Any],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Captures functions or modules, and returns callables that run the captured graphs.

    callables           a function, a module, or a tuple of them
    sample_args         tensors of the shapes, dtypes and requires_grad of later
                        arguments; a tuple, or a tuple of tuples for several callables
    num_warmup_iters    how often each runs before it is captured
    allow_unused_input  whether an argument may have no gradient
    pool                a handle; captured graphs share no memory here

    A module is returned itself: it runs its graph while its `training` is as it was
    captured, and its own `forward` otherwise. Results lie in the graph's memory, which
    the next call overwrites.

    TypeError: a sample is no tensor. RuntimeError: autocast caches weights, a module has
    hooks or a buffer that requires gradients; at a call, an argument of another shape or
    dtype than its sample.
    """
    if torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support autocast's cache of weights; use"
            " torch.autocast(..., cache_enabled=False)"
        )
    if not isinstance(callables, tuple):
        return _graphed(
            callables, tuple(sample_args), num_warmup_iters, allow_unused_input, pool
        )
    if len(callables) != len(sample_args):
        raise RuntimeError(
            f"make_graphed_callables: sample_args must have {len(callables)} tuples, one"
            f" for each callable, got {len(sample_args)}"
        )
    return tuple(
        _graphed(function, tuple(args), num_warmup_iters, allow_unused_input, pool)
        for function, args in zip(callables, sample_args)
    )


@dataclasses.dataclass
class _Captured:
    """The graphs of one callable, and the tensors that they read and write. Entries of
    `input_grads` are None where there is no gradient."""

    forward: NPUGraph
    backward: NPUGraph | None
    inputs: list[Tensor]
    outputs: list[Tensor]
    output_grads: list[Tensor | None]
    input_grads: list[Tensor | None]
    tree: TreeSpec
    given: int  # how many inputs are arguments; the others are parameters

    def run(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        for place, (own, new) in enumerate(zip(self.inputs[: self.given], arguments)):
            if (own.shape, own.dtype) != (new.shape, new.dtype):
                raise RuntimeError(
                    f"a graphed callable got argument {place} as {tuple(new.shape)}"
                    f" {new.dtype}, and was captured with {tuple(own.shape)} {own.dtype}"
                )
            if own.data_ptr() != new.data_ptr():
                own.detach().copy_(new)
        self.forward.replay()
        return tuple(output.detach() for output in self.outputs)

    def run_backward(self, grads: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        if self.backward is not None:
            for own, new in zip(self.output_grads, grads):
                if own is not None and own.data_ptr() != new.data_ptr():
                    own.copy_(new)
            self.backward.replay()
        return tuple(None if g is None else g.detach() for g in self.input_grads)


def _graphed(
    function: Any, args: tuple[Any, ...], warmups: int, unused: bool, pool: Any
) -> Any:
    parameters: tuple[Tensor, ...] = ()
    is_module = isinstance(function, torch.nn.Module)
    if is_module:
        _check_module(function)
        parameters = tuple(function.parameters())
    captured = _capture(function, args, parameters, warmups, unused, pool)

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Any:
            return captured.run(inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return captured.run_backward(grads)

    @torch.compiler.disable(reason="a graphed callable replays its own graph")
    def call(*user_args: Any) -> Any:
        flat = tree_flatten(user_args)[0]
        if len(flat) != captured.given:
            raise RuntimeError(
                f"a graphed callable got {len(flat)} tensors, and was captured with"
                f" {captured.given}"
            )
        return tree_unflatten(Graphed.apply(*flat, *parameters), captured.tree)

    if not is_module:
        return call
    training, own_forward = function.training, function.forward

    def forward(*user_args: Any, **more: Any) -> Any:
        if function.training == training and not more:
            return call(*user_args)
        return own_forward(*user_args, **more)

    function.forward = forward
    return function


def _check_module(module: torch.nn.Module) -> None:
    hooks = (
        module._backward_hooks,
        module._forward_hooks,
        module._forward_pre_hooks,
    )
    if any(hooks):
        raise RuntimeError(
            "make_graphed_callables: modules must not have hooks; register them on the"
            " graphed module"
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError(
            "make_graphed_callables: buffers of a module must not require gradients"
        )


def _capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    parameters: tuple[Tensor, ...],
    warmups: int,
    unused: bool,
    pool: Any,
) -> _Captured:
    flat = tree_flatten(args)[0]
    for place, sample in enumerate(flat):
        if not isinstance(sample, Tensor):
            raise TypeError(
                f"make_graphed_callables: sample_args must be tensors, got"
                f" {type(sample).__name__} at place {place}"
            )
    inputs = [*flat, *parameters]
    wanting = [tensor for tensor in inputs if tensor.requires_grad]

    def gradients(outputs: list[Tensor], grads: list[Tensor | None]) -> Any:
        pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None]
        return torch.autograd.grad(
            outputs=[output for output, _ in pairs],
            inputs=wanting,
            grad_outputs=[grad for _, grad in pairs],
            allow_unused=unused,
        )

    def buffers(outputs: list[Tensor]) -> list[Tensor | None]:
        return [torch.empty_like(o) if o.requires_grad else None for o in outputs]

    with torch.enable_grad():
        for _ in range(warmups):
            outputs = tree_flatten(function(*args))[0]
            if wanting and any(output.requires_grad for output in outputs):
                gradients(outputs, buffers(outputs))
        forward, backward = NPUGraph(), None
        with graph(forward, pool):
            result = function(*args)
        outputs, tree = tree_flatten(result)
        output_grads = buffers(outputs)
        found: list[Tensor | None] = []
        if wanting and any(output.requires_grad for output in outputs):
            backward = NPUGraph()
            with graph(backward, pool):
                found = list(gradients(outputs, output_grads))
    rest = iter(found)
    input_grads = [next(rest, None) if i.requires_grad else None for i in inputs]
    outputs = [output.detach() for output in outputs]
    return _Captured(
        forward,
        backward,
        inputs,
        outputs,
        output_grads,
        input_grads,
        tree,
        len(flat),
    )
