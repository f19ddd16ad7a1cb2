"""Has a trace take packed sequences in: Dynamo reads the functions of `packed_sequences`
in the place of PyTorch's, and layers take the size of a packed batch for a number.

PyTorch's layers give `torch.zeros` a tensor for a size, and compare the batch of a state
with one that the run decides. Layers that run meanwhile compute the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch._dynamo.variables.functions import PolyfilledFunctionVariable
from torch.nn.utils import rnn

from . import packed_sequences

_FUNCTIONS = ("pack_padded_sequence", "pad_packed_sequence")


@contextlib.contextmanager
def taken_in() -> Iterator[None]:
    """Inside the block, which holds Dynamo's lock, Dynamo takes packed sequences in."""
    with contextlib.ExitStack() as stack:
        for name in _FUNCTIONS:
            own = getattr(packed_sequences, name)
            stack.enter_context(_read_as(getattr(rnn, name), own))
        for kind, name, method in _METHODS:
            stack.enter_context(_changed(kind, name, method))
        yield


@contextlib.contextmanager
def _read_as(function: Any, own: Callable[..., Any]) -> Iterator[None]:
    """Dynamo reads `own` where it meets the function. `substitute_in_graph` refuses
    functions that Dynamo skips, and lasts."""
    rules = get_torch_obj_rule_map()
    handlers = PolyfilledFunctionVariable._get_polyfill_handlers()
    before = rules.get(function)
    rules[function] = PolyfilledFunctionVariable
    handlers[function] = _Handler(own)
    try:
        yield
    finally:
        del handlers[function], rules[function]
        if before is not None:
            rules[function] = before


class _Handler(SimpleNamespace):
    """Names the function that Dynamo reads."""

    def __init__(self, own: Callable[..., Any]) -> None:
        super().__init__(__torch_dynamo_polyfill__=own)

    def __call__(self) -> None: ...


@contextlib.contextmanager
def _changed(kind: type[nn.Module], name: str, method: Any) -> Iterator[None]:
    """A class with another method."""
    before = getattr(kind, name)
    setattr(kind, name, method)
    try:
        yield
    finally:
        setattr(kind, name, before)


# Functions without closures: Dynamo would compare a closure of the class's method at each
# call, after the block.
_CHECK = nn.RNNBase.check_forward_args
_LSTM, _GRU, _RNN = nn.LSTM.forward, nn.GRU.forward, nn.RNN.forward


def _lstm(self: nn.LSTM, input: Any, hx: Any = None) -> Any:
    return _LSTM(self, input, _states(self, input, hx))


def _gru(self: nn.GRU, input: Any, hx: Any = None) -> Any:
    return _GRU(self, input, _states(self, input, hx))


def _rnn(self: nn.RNN, input: Any, hx: Any = None) -> Any:
    return _RNN(self, input, _states(self, input, hx))


def _states(layer: nn.RNNBase, input: Any, hx: Any) -> Any:
    """The states before the first step, for packed sequences. RuntimeError, when the
    program runs: they are for another number of sequences."""
    if not isinstance(input, rnn.PackedSequence):
        return hx
    batch = packed_sequences.batch_of(input)
    if hx is None:
        return _zeros(layer, input.data, batch)
    given = hx[0] if isinstance(hx, tuple) else hx
    torch._assert_scalar(
        batch == given.shape[1],
        "hx has a state for another number of sequences than the input",
    )
    return hx


def _zeros(layer: nn.RNNBase, data: Tensor, batch: int) -> Any:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    hidden = data.new_zeros((count, batch, layer.proj_size or layer.hidden_size))
    if not isinstance(layer, nn.LSTM):
        return hidden
    return hidden, data.new_zeros((count, batch, layer.hidden_size))


def _check(
    self: nn.RNNBase, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None
) -> None:
    if batch_sizes is None:
        _CHECK(self, input, hidden, batch_sizes)
        return
    self.check_input(input, batch_sizes)
    count = self.num_layers * (2 if self.bidirectional else 1)
    self.check_hidden_size(hidden, (count, hidden.size(1), self.hidden_size))


_METHODS: list[tuple[type[nn.Module], str, Any]] = [
    (nn.LSTM, "forward", _lstm),
    (nn.GRU, "forward", _gru),
    (nn.RNN, "forward", _rnn),
    (nn.RNNBase, "check_forward_args", _check),
]
