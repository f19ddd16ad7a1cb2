"""The computation of one trip of a recurrent layer's loop.

Each cell gets the part of its gates that the step's input gives, the states of the step
before, and its weights. It returns the new states; the first is the step's result. Sums
and states that no result shows are f32 where the tensors are bf16 or f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..byte_layers import products

# The types in which a cell computes, for those that are too narrow for it.
WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


class Weights(NamedTuple):
    """The weights that a step reads."""

    hidden: Tensor
    bias: Tensor | None  # of the gates that the state gives
    projection: Tensor | None
    scale: Tensor | None = None  # of `hidden`, if that is bytes


Cell = Callable[[Tensor, tuple[Tensor, ...], Weights], tuple[Tensor, ...]]


def _wide(value: Tensor) -> Tensor:
    return value.to(WIDE.get(value.dtype, value.dtype))


def product(x: Tensor, weight: Tensor, scale: Tensor | None, bias: Any) -> Tensor:
    """x W' + b, of floats or, with a scale, of bytes."""
    if scale is None:
        return functional.linear(x, weight, bias)
    return products.product(x, weight, scale, bias)


def _gates(state: Tensor, weights: Weights) -> Tensor:
    return _wide(product(state, weights.hidden, weights.scale, weights.bias))


def lstm(
    inputs: Tensor, states: tuple[Tensor, ...], weights: Weights
) -> tuple[Tensor, ...]:
    hidden, cell = states
    gates = _gates(hidden, weights) + _wide(inputs)
    enter, forget, new, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
    result = (torch.sigmoid(leave) * torch.tanh(cell)).to(hidden.dtype)
    if weights.projection is not None:
        result = functional.linear(result, weights.projection)
    return result, cell


def gru(
    inputs: Tensor, states: tuple[Tensor, ...], weights: Weights
) -> tuple[Tensor, ...]:
    before = _wide(states[0])
    of_state = _gates(states[0], weights).chunk(3, -1)
    of_input = _wide(inputs).chunk(3, -1)
    reset = torch.sigmoid(of_input[0] + of_state[0])
    update = torch.sigmoid(of_input[1] + of_state[1])
    new = torch.tanh(of_input[2] + reset * of_state[2])
    return (((before - new) * update + new).to(states[0].dtype),)


def tanh(
    inputs: Tensor, states: tuple[Tensor, ...], weights: Weights
) -> tuple[Tensor, ...]:
    gates = _gates(states[0], weights) + _wide(inputs)
    return (torch.tanh(gates).to(inputs.dtype),)


def relu(
    inputs: Tensor, states: tuple[Tensor, ...], weights: Weights
) -> tuple[Tensor, ...]:
    gates = _gates(states[0], weights) + _wide(inputs)
    return (torch.relu(gates).to(inputs.dtype),)
