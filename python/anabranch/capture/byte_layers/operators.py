"""Recurrent layers whose weights are bytes, as operators. `recurrent/layers` takes them
apart like those of floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ... import purity
from ..recurrent import cells
from ..recurrent.layers import of_bytes
from ..recurrent.operators import padded_results

_ARGUMENTS = (
    "Tensor[] states, Tensor[] weights, Tensor[] scales, Tensor[] biases,"
    " int num_layers, bool bidirectional, bool batch_first"
)


def _results(
    inputs: Tensor,
    states: Sequence[Tensor],
    weights: Any,
    scales: Any,
    biases: Any,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    return padded_results(inputs, states, bidirectional, batch_first)


_CELLS = {"lstm": cells.lstm, "gru": cells.gru}
_RESULTS = {"lstm": "Tensor, Tensor, Tensor", "gru": "Tensor, Tensor"}

# The operator of each kind of layer. Weights are int8 [gates, width], and scales float32
# [gates]: for each layer and direction those of the inputs, then those of the state. So
# are the biases.
OPERATORS = {
    kind: purity.define(
        f"byte_{kind}(Tensor inputs, {_ARGUMENTS}) -> ({results})",
        of_bytes(_CELLS[kind]),
        _results,
    )
    for kind, results in _RESULTS.items()
}
# The function that computes each of the operators.
PARTS: dict[Any, Callable[..., Any]] = {
    operator: of_bytes(_CELLS[kind]) for kind, operator in OPERATORS.items()
}
