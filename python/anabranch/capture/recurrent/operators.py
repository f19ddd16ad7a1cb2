"""The operators of recurrent layers, and the shapes of their results.

A trace that runs an operator on fake tensors needs only the shapes. PyTorch has no rule
for them: it runs the operator's parts once for each step, which fixes the length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import UnsupportedOperatorException

aten = torch.ops.aten


def check_length(inputs: Tensor, batch_first: bool) -> None:
    """RuntimeError: there is no step, as in eager PyTorch."""
    torch._check(
        inputs.shape[1 if batch_first else 0] > 0,
        lambda: "Expected sequence length to be larger than 0 in RNN",
    )


def check_autocast() -> None:
    """UnsupportedOperatorException, at which Dynamo breaks its graph: autocast changes
    dtypes within a layer. Operators on fake tensors run with the switch of autocast off,
    so only the depth of its blocks tells."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    if depth > 0:
        raise UnsupportedOperatorException("a recurrent layer under autocast")


def states_of(given: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The states of an operator, of which an LSTM has two."""
    return [given] if isinstance(given, Tensor) else given


def padded_results(
    inputs: Tensor, states: Sequence[Tensor], bidirectional: bool, batch_first: bool
) -> tuple[Tensor, ...]:
    """Empty results of a layer on a padded batch. RuntimeError: there is no step."""
    check_length(inputs, batch_first)
    length, batch = inputs.shape[:2]
    if batch_first:
        length, batch = batch, length
    output = inputs.new_empty((length, batch, _width(states, bidirectional)))
    last = [inputs.new_empty(state.shape) for state in states]
    return (output.transpose(0, 1) if batch_first else output, *last)


def _results(
    inputs: Tensor,
    given: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    check_autocast()
    return padded_results(inputs, states_of(given), bidirectional, batch_first)


def _packed_results(
    data: Tensor,
    sizes: Tensor,
    given: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    check_autocast()
    states = states_of(given)
    output = data.new_empty((data.shape[0], _width(states, bidirectional)))
    return (output, *(data.new_empty(state.shape) for state in states))


def _width(states: Sequence[Tensor], bidirectional: bool) -> int:
    return states[0].shape[2] * (2 if bidirectional else 1)


_OPERATORS = (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu)

# The function that makes the results of each operator on fake tensors.
RULES: dict[Any, Callable[..., tuple[Tensor, ...]]] = {
    **{operator.input: _results for operator in _OPERATORS},
    **{operator.data: _packed_results for operator in _OPERATORS},
}
