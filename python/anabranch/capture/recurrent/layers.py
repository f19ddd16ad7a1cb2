"""Takes the operators of recurrent layers apart: for each layer and direction a product
of all steps' inputs, and a loop over time.

    gates = linear(inputs, w_ih, b_ih + b_hh)              one product for all steps
    for each step: hidden, cell = cell(gates[step], hidden, cell, w_hh)

The loop is a `scan`, so a program serves every length. Packed sequences become a padded
batch, in which a step leaves the states of sequences that have ended, or that have not
begun, as they are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import cells
from .operators import aten, check_length, states_of
from .packed_places import Places, packed_rows, places

scan = torch.ops.higher_order.scan


class _Direction(NamedTuple):
    """The parameters of one direction of a layer."""

    weight: Tensor
    hidden: Tensor
    bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None
    scale: Tensor | None = None  # of `weight`, if that is bytes
    hidden_scale: Tensor | None = None


def _directions(
    params: Sequence[Tensor], has_biases: bool, is_projected: bool
) -> Iterator[_Direction]:
    each = 2 + 2 * has_biases + is_projected
    for at in range(0, len(params), each):
        own = list(params[at : at + each])
        biases = own[2:4] if has_biases else [None, None]
        projection = own[-1] if is_projected else None
        yield _Direction(own[0], own[1], biases[0], biases[1], projection)


def _byte_directions(
    weights: Sequence[Tensor], scales: Sequence[Tensor], biases: Sequence[Tensor]
) -> Iterator[_Direction]:
    for at in range(0, len(weights), 2):
        yield _Direction(
            weights[at],
            weights[at + 1],
            biases[at] if biases else None,
            biases[at + 1] if biases else None,
            None,
            scales[at],
            scales[at + 1],
        )


class _Steps:
    """The steps of a padded batch."""

    def gates(self, inputs: Tensor, own: _Direction, bias: Any, reverse: bool) -> Any:
        """What the inputs add to the gates of all steps: [steps, batch, gates]."""
        steps = inputs.flip(0) if reverse else inputs
        return cells.product(steps, own.weight, own.scale, bias)

    def present(self, reverse: bool) -> list[Tensor]:
        """Which sequences each step has, bool [steps, batch, 1]; empty: all."""
        return []

    def results(self, found: Tensor, reverse: bool) -> Tensor:
        """The results of all steps in the order of the inputs."""
        return found.flip(0) if reverse else found


class _PackedSteps(_Steps):
    """The steps of packed sequences."""

    def __init__(self, sizes: Tensor, count: int, batch: int) -> None:
        self._places: Places = places(sizes, batch)
        self._rows = packed_rows(sizes, count, batch)

    def gates(self, inputs: Tensor, own: _Direction, bias: Any, reverse: bool) -> Any:
        rows = self._places.rows
        packed = cells.product(inputs, own.weight, own.scale, bias)
        return packed[rows.flip(0) if reverse else rows]

    def present(self, reverse: bool) -> list[Tensor]:
        found = self._places.valid.unsqueeze(-1)
        return [found.flip(0) if reverse else found]

    def results(self, found: Tensor, reverse: bool) -> Tensor:
        in_order = found.flip(0) if reverse else found
        return in_order.flatten(0, 1)[self._rows]


def _run(
    cell: cells.Cell,
    inputs: Tensor,
    states: Sequence[Tensor],
    own: _Direction,
    reverse: bool,
    steps: _Steps,
) -> tuple[Tensor, list[Tensor]]:
    """One direction of one layer: the results of all steps, and the last states."""
    bias, hidden_bias = own.bias, own.hidden_bias
    if bias is not None and cell is not cells.gru:  # whose reset gate scales one alone
        bias, hidden_bias = bias + hidden_bias, None
    slices = [steps.gates(inputs, own, bias, reverse), *steps.present(reverse)]
    weights = cells.Weights(own.hidden, hidden_bias, own.projection, own.hidden_scale)
    given = [w for w in weights if w is not None]

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        before, rest = values[: len(states)], iter(values[len(states) :])
        gates, *present = itertools.islice(rest, len(slices))
        read = cells.Weights(*(None if w is None else next(rest) for w in weights))
        after = cell(gates, before, read)
        for has in present:
            after = tuple(map(functools.partial(torch.where, has), after, before))
        return (*after, after[0].clone())

    first = _first_states(inputs, states)
    *last, results = scan(step, first, slices, tuple(given))
    last = [value.to(inputs.dtype) for value in last]
    return steps.results(results, reverse), last


def _first_states(inputs: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """The states before the first step. All but the first are carried in the type that
    the cell computes in."""
    wide = cells.WIDE.get(inputs.dtype, inputs.dtype)
    return [states[0].clone(), *(state.to(wide).clone() for state in states[1:])]


def _layers(
    cell: cells.Cell,
    inputs: Tensor,
    states: Sequence[Tensor],
    steps: _Steps,
    todo: Iterator[_Direction],
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """All layers: the results of the last one, and the last states of each."""
    output = inputs
    last: list[list[Tensor]] = []
    for layer in range(num_layers):
        made: list[Tensor] = []
        for own in itertools.islice(todo, 2 if bidirectional else 1):
            before = [state[len(last)] for state in states]
            reverse = bool(made)
            results, after = _run(cell, output, before, own, reverse, steps)
            made.append(results)
            last.append(after)
        output = torch.cat(made, -1) if bidirectional else made[0]
        if dropout and train and layer < num_layers - 1:
            output = torch.dropout(output, dropout, True)
    finals = (torch.stack(values) for values in zip(*last))
    return (output, *finals)


def _own(
    states: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, *rest: Any
) -> tuple[Any, ...]:
    """What `_layers` takes of an operator's options."""
    is_projected = len(states) > 1 and states[0].shape[2] != states[1].shape[2]
    return (_directions(params, has_biases, is_projected), *rest)


def _padded(cell: cells.Cell) -> Callable[..., tuple[Tensor, ...]]:
    """The operator on a padded batch."""

    def layers(
        inputs: Tensor, states: Tensor | Sequence[Tensor], *rest: Any
    ) -> tuple[Tensor, ...]:
        *options, batch_first = rest
        check_length(inputs, batch_first)
        steps = inputs.transpose(0, 1) if batch_first else inputs
        before = states_of(states)
        own = _own(before, *options)
        output, *last = _layers(cell, steps, before, _Steps(), *own)
        return (output.transpose(0, 1) if batch_first else output, *last)

    return layers


def _packed(cell: cells.Cell) -> Callable[..., tuple[Tensor, ...]]:
    """The operator on packed sequences."""

    def layers(
        data: Tensor, sizes: Tensor, states: Tensor | Sequence[Tensor], *options: Any
    ) -> tuple[Tensor, ...]:
        before = states_of(states)
        steps = _PackedSteps(sizes, data.shape[0], before[0].shape[1])
        return _layers(cell, data, before, steps, *_own(before, *options))

    return layers


def of_bytes(cell: cells.Cell) -> Callable[..., tuple[Tensor, ...]]:
    """Computes a layer whose weights are bytes on a padded batch."""

    def layers(
        inputs: Tensor,
        states: Sequence[Tensor],
        weights: Sequence[Tensor],
        scales: Sequence[Tensor],
        biases: Sequence[Tensor],
        num_layers: int,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        check_length(inputs, batch_first)
        steps = inputs.transpose(0, 1) if batch_first else inputs
        todo = _byte_directions(weights, scales, biases)
        options = (num_layers, 0.0, False, bidirectional)
        output, *last = _layers(cell, steps, states, _Steps(), todo, *options)
        return (output.transpose(0, 1) if batch_first else output, *last)

    return layers


_CELLS = {
    aten.lstm: cells.lstm,
    aten.gru: cells.gru,
    aten.rnn_tanh: cells.tanh,
    aten.rnn_relu: cells.relu,
}

# The function that computes each of the operators.
PARTS: dict[Any, Callable[..., Any]] = {
    **{operator.input: _padded(cell) for operator, cell in _CELLS.items()},
    **{operator.data: _packed(cell) for operator, cell in _CELLS.items()},
}
