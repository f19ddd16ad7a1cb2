"""Takes the operators of recurrent layers apart: for each layer and direction a product
of all steps' inputs, and a loop over time.

    gates = linear(inputs, w_ih, b_ih + b_hh)              one product for all steps
    for each step: hidden, cell = cell(gates[step], hidden, cell, w_hh)

The loop is a `scan`, so a program serves every length."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from . import cells
from .operators import aten, check_length

scan = torch.ops.higher_order.scan


class _Direction(NamedTuple):
    """The parameters of one direction of a layer."""

    weight: Tensor
    hidden: Tensor
    bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None


def _directions(
    params: Sequence[Tensor], has_biases: bool, is_projected: bool
) -> Iterator[_Direction]:
    each = 2 + 2 * has_biases + is_projected
    for at in range(0, len(params), each):
        own = list(params[at : at + each])
        biases = own[2:4] if has_biases else [None, None]
        projection = own[-1] if is_projected else None
        yield _Direction(own[0], own[1], biases[0], biases[1], projection)


def _run(
    cell: cells.Cell,
    inputs: Tensor,
    states: Sequence[Tensor],
    own: _Direction,
    reverse: bool,
) -> tuple[Tensor, list[Tensor]]:
    """One direction of one layer: the results of all steps, and the last states."""
    bias, hidden_bias = own.bias, own.hidden_bias
    if bias is not None and cell is not cells.gru:  # whose reset gate scales one alone
        bias, hidden_bias = bias + hidden_bias, None
    steps = inputs.flip(0) if reverse else inputs
    gates = functional.linear(steps, own.weight, bias)
    weights = cells.Weights(own.hidden, hidden_bias, own.projection)
    present = [w for w in weights if w is not None]

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        before, rest = values[: len(states)], iter(values[len(states) + 1 :])
        read = cells.Weights(*(None if w is None else next(rest) for w in weights))
        after = cell(values[len(states)], before, read)
        return (*after, after[0].clone())

    first = _first_states(inputs, states)
    *last, results = scan(step, first, [gates], tuple(present))
    last = [value.to(inputs.dtype) for value in last]
    return results.flip(0) if reverse else results, last


def _first_states(inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """The states before the first step. All but the first are carried in the type that
    the cell computes in."""
    wide = cells.WIDE.get(inputs.dtype, inputs.dtype)
    return [states[0].clone(), *(state.to(wide).clone() for state in states[1:])]


def _layers(
    cell: cells.Cell,
    inputs: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    check_length(inputs, batch_first)
    is_projected = len(states) > 1 and states[0].shape[2] != states[1].shape[2]
    todo = _directions(params, has_biases, is_projected)
    output = inputs.transpose(0, 1) if batch_first else inputs
    last: list[list[Tensor]] = []
    for layer in range(num_layers):
        made: list[Tensor] = []
        for own in itertools.islice(todo, 2 if bidirectional else 1):
            before = [state[len(last)] for state in states]
            results, after = _run(cell, output, before, own, reverse=bool(made))
            made.append(results)
            last.append(after)
        output = torch.cat(made, -1) if bidirectional else made[0]
        if dropout and train and layer < num_layers - 1:
            output = torch.dropout(output, dropout, True)
    finals = (torch.stack(values) for values in zip(*last))
    return (output.transpose(0, 1) if batch_first else output, *finals)


def _lstm(inputs: Tensor, states: Sequence[Tensor], *rest: Any) -> tuple[Tensor, ...]:
    return _layers(cells.lstm, inputs, states, *rest)


def _of_one_state(cell: cells.Cell) -> Callable[..., tuple[Tensor, ...]]:
    def layers(inputs: Tensor, state: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return _layers(cell, inputs, [state], *rest)

    return layers


# The function that computes each of the operators.
PARTS: dict[Any, Callable[..., Any]] = {
    aten.lstm.input: _lstm,
    aten.gru.input: _of_one_state(cells.gru),
    aten.rnn_tanh.input: _of_one_state(cells.tanh),
    aten.rnn_relu.input: _of_one_state(cells.relu),
}
