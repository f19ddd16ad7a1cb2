"""Quantises the linear layers of a language model to 8 or 4 bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .quantized_layers import QuantizedLinear, QuantizedWeight
from .rounding import layer_inputs
from .rounding.error_feedback import Columns
from .rounding.layer_inputs import Reading
from .rounding.output_gradients import squared_gradients
from .rounding.weight_fits import (
    GROUP,
    eight_bits,
    errors_of_four_bits,
    four_bits,
    four_bits_in_turn,
)

KINDS = ("int8", "int4")
# The part of the weights that has bytes with "int4": those of the layers whose 4 bits
# would change what the model says most for their size.
IN_BYTES = 0.15
# The cost of 4 bits up to which no layers go back to bytes: nats of divergence for a
# word or, where no gradients are known, parts of the layers' squared results.
LITTLE = 0.005

Make = Callable[[nn.Module, torch.Tensor], nn.Module]


def quantized(model: Any, kind: str, calibration: Any = None) -> Any:
    """The model with quantised linear layers. It shares everything else with `model`,
    which is not changed.

    calibration  for "int4": ids of the tokens of a text. Layers are rounded so that
                 their results on this text change least. None: an error of a weight
                 counts by what its column reads of random tokens

    With "int4", the layer of the logits gets "int8", and so do layers whose rows are no
    multiple of a group, and the layers that 4 bits would change most. ValueError: wrong
    tokens.
    """
    if kind == "int8":
        return replaced(model, _of_bytes)
    head = getattr(model, "get_output_embeddings", lambda: None)()
    weights = {
        module: weight
        for module in model.modules()
        if (weight := _weight_of(module)) is not None
        and module is not head
        and weight.shape[1] % GROUP == 0
    }
    tokens, readings = None, dict[nn.Module, Reading]()
    gradients = dict[nn.Module, torch.Tensor]()
    # The inputs of the layers of other modules are not known.
    if hasattr(model, "get_input_embeddings"):
        tokens = (
            layer_inputs.random_tokens(model)
            if calibration is None
            else layer_inputs.rows_of(model, calibration)
        )
        readings = layer_inputs.read(model, weights, tokens)
        gradients = squared_gradients(model, weights, tokens[:1])
    bytes_too = _sensitive(weights, readings, gradients)
    columns = _LastColumns()

    def make(layer: nn.Module, weight: torch.Tensor) -> nn.Module:
        if layer not in weights or layer in bytes_too:
            return _of_bytes(layer, weight)
        reading = readings.get(layer)
        importance = None if reading is None else reading.importance()
        if calibration is None or reading is None:
            return _linear(layer, four_bits(weight, importance))

        def made(x: torch.Tensor | None) -> nn.Module:
            # A router may have sent all tokens elsewhere by now.
            found = (
                four_bits(weight, importance)
                if x is None
                else four_bits_in_turn(weight, columns.of(x))
            )
            return _linear(layer, found)

        return _Waiting(made)

    found = replaced(model, make)
    if calibration is not None:
        assert tokens is not None
        layer_inputs.run(found, tokens)
        _settle(found)
    return found


def _sensitive(
    weights: Mapping[nn.Module, torch.Tensor],
    readings: Mapping[nn.Module, Reading],
    gradients: Mapping[nn.Module, torch.Tensor],
) -> set[nn.Module]:
    """The layers whose 4 bits change the loss most, for the bytes that they take."""

    def harm(layer: nn.Module) -> float:
        weight, reading = weights[layer], readings[layer]
        errors = errors_of_four_bits(weight, reading.importance())
        if gradients:
            # By the quadratic form of Fisher's information, about the divergence.
            squares = gradients.get(layer)
            return 0.0 if squares is None else float(errors @ squares) / 2
        # The effect of outputs is not known: the outputs of all layers count the same.
        wanted = reading.output * len(weight)
        return float(errors.sum()) / wanted if wanted > 0 else 0.0

    harms = {layer: harm(layer) for layer in readings}
    rest = sum(harms.values())
    left = IN_BYTES * sum(weight.numel() for weight in weights.values())
    found = set[nn.Module]()
    for layer in sorted(
        harms, key=lambda layer: harms[layer] / weights[layer].numel(), reverse=True
    ):
        left -= weights[layer].numel()
        if left < 0 or rest <= LITTLE:
            break
        found.add(layer)
        rest -= harms[layer]
    return found


def replaced(model: Any, make: Make) -> Any:
    """A copy of a model that has what `make` gives, for a layer and its weight, in the
    place of linear layers. Everything else is shared."""
    return _replaced(model, make, {})


def _replaced(module: nn.Module, make: Make, known: dict[nn.Module, Any]) -> Any:
    if module in known:
        return known[module]
    weight = _weight_of(module)
    if weight is not None:
        found: Any = make(module, weight)
    else:
        found = copy.copy(module)
        found._modules = {
            name: child if child is None else _replaced(child, make, known)
            for name, child in module._modules.items()
        }
    known[module] = found
    return found


def _linear(layer: nn.Module, weight: QuantizedWeight) -> nn.Module:
    return QuantizedLinear(weight, layer.bias).eval()


def _of_bytes(layer: nn.Module, weight: torch.Tensor) -> nn.Module:
    return _linear(layer, eight_bits(weight))


class _LastColumns:
    """Keeps the columns of the last input: query, key and value read the same one."""

    def __init__(self) -> None:
        self._input: torch.Tensor | None = None
        self._columns: Columns | None = None

    def of(self, x: torch.Tensor) -> Columns:
        if self._columns is None or x is not self._input:
            self._input, self._columns = x, Columns(x)
        return self._columns


class _Waiting(nn.Module):
    """Becomes a quantised layer at its first call, for what the call reads. The layers
    before it are quantised then, so that it makes up for their errors too."""

    def __init__(self, made: Callable[[torch.Tensor | None], nn.Module]) -> None:
        super().__init__()
        self._make = made
        self.__dict__["_made"] = None  # not a part of this module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.made(x)(x)

    def made(self, x: torch.Tensor | None = None) -> nn.Module:
        """The layer; None for x: it was never called."""
        found = self.__dict__["_made"]
        if found is None:
            found = self.__dict__["_made"] = self._make(x)
        return found


def _settle(module: nn.Module) -> None:
    """Puts quantised layers in the place of those that waited for them."""
    for name, child in module._modules.items():
        if isinstance(child, _Waiting):
            module._modules[name] = child.made()
        elif child is not None:
            _settle(child)


def is_linear(module: nn.Module) -> bool:
    return _weight_of(module) is not None


def _weight_of(module: nn.Module) -> torch.Tensor | None:
    """The weight [out, in] of a linear layer; None for any other module."""
    if type(module) is nn.Linear:
        return module.weight.detach()
    # a linear layer of GPT-2
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):
        return module.weight.detach().t()
    return None
