"""What a trace reads in the place of the layers that torch.ao's `quantize_dynamic` makes.

These layers hold their weights in objects that Dynamo cannot read. While Dynamo compiles a
frame for Anabranch, their methods are those of this module: a method whose result Dynamo
takes for a constant gives the weights as tensors. Layers that run meanwhile compute the
same. Layers of float16, packed sequences and dropout stay PyTorch's: the graph breaks
there.

What holds weights has a number, which `versions` changes with the weights. A trace reads
it, so that Dynamo's guards do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from . import versions
from .operators import OPERATORS
from .products import MOST, product

_MODULES = "torch.ao.nn.quantized.dynamic"
_ALL_BITS = 255
_lstm, _gru = OPERATORS["lstm"], OPERATORS["gru"]
# The methods of PyTorch's classes, by class name.
_forward: dict[str, Callable[..., Any]] = {}


@contextlib.contextmanager
def taken_in() -> Iterator[None]:
    """Inside the block, which holds Dynamo's lock, Dynamo takes these layers in."""
    # A process without the module has no such layer.
    modules = sys.modules.get(_MODULES)
    if modules is None:
        yield
        return
    own = {"Linear": _linear, "LSTM": _run_lstm, "GRU": _run_gru}
    kinds = {name: getattr(modules, name) for name in own}
    for name, kind in kinds.items():
        _forward.setdefault(name, kind.forward)
        # They stay: other threads may call them when the block ends.
        kind.anabranch_byte_tensors = anabranch_byte_tensors
    versions.watch()
    try:
        for name, kind in kinds.items():
            kind.forward = own[name]
        yield
    finally:
        for name, kind in kinds.items():
            kind.forward = _forward[name]


def anabranch_byte_tensors(self: Any) -> tuple[Tensor | None, ...]:
    """The tensors of a layer: for each of its weights the bytes, the scales and the
    bias. What holds the weights has a number from now on."""
    for holder in _holders(self):
        versions.number(holder)
    if not hasattr(self, "_all_weight_values"):
        pairs = [self._weight_bias()]
    else:
        found = self._weight_bias()
        weights, biases = found["weight"].values(), found["bias"].values()
        pairs = list(zip(weights, biases))
    tensors: list[Tensor | None] = []
    for weight, bias in pairs:
        rows = weight.shape[0]
        if weight.qscheme() == torch.per_tensor_affine:
            scale = torch.full((rows,), weight.q_scale())
        else:
            scale = weight.q_per_channel_scales().float()
        tensors += [weight.int_repr(), scale, bias]
    return tuple(None if tensor is None else _fixed(tensor) for tensor in tensors)


def _holders(self: Any) -> list[nn.Module]:
    """The modules that hold the weights of a layer."""
    if hasattr(self, "_all_weight_values"):
        return list(self._all_weight_values)
    return [self._packed_params]


def _tensors(self: Any) -> Any:
    """The tensors of a layer, in a trace that holds for these weights alone."""
    tensors = self.anabranch_byte_tensors()
    for holder in _holders(self):
        versions.read(holder)
    return tensors


def _fixed(tensor: Tensor) -> Tensor:
    """The tensor as a parameter, whose sizes are no symbols in any trace."""
    return nn.Parameter(tensor.detach(), requires_grad=False)


# Dynamo calls the method while it traces.
anabranch_byte_tensors._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _linear(self: Any, x: Tensor) -> Tensor:
    if self._packed_params.dtype != torch.qint8 or x.dtype != torch.float32:
        return _forward["Linear"](self, x)
    integers, scale, bias = _tensors(self)
    most = _ALL_BITS if self.version is None or self.version < 4 else MOST
    return product(x, integers, scale, bias, most)


def _is_taken(self: Any, inputs: Any) -> bool:
    drops = self.training and self.dropout and self.num_layers > 1
    return (
        not isinstance(inputs, PackedSequence)
        and self.dtype == torch.qint8
        and not drops
        and inputs.dtype == torch.float32
    )


def _zeros(self: Any, inputs: Tensor) -> Tensor:
    batch = inputs.shape[0 if self.batch_first else 1]
    count = self.num_layers * (2 if self.bidirectional else 1)
    return inputs.new_zeros((count, batch, self.hidden_size))


def _options(self: Any) -> tuple[Any, ...]:
    tensors = _tensors(self)
    return (
        list(tensors[::3]),
        list(tensors[1::3]),
        list(tensors[2::3]) if self.bias else [],
        self.num_layers,
        self.bidirectional,
        self.batch_first,
    )


def _run_lstm(self: Any, input: Any, hx: Any = None) -> Any:
    if not _is_taken(self, input):
        return _forward["LSTM"](self, input, hx)
    if hx is None:
        hx = (_zeros(self, input), _zeros(self, input))
    self.check_forward_args(input, hx, None)
    output, hidden, cell = _lstm(input, list(hx), *_options(self))
    return output, (hidden, cell)


def _run_gru(self: Any, input: Any, hx: Any = None) -> Any:
    if not _is_taken(self, input):
        return _forward["GRU"](self, input, hx)
    if hx is None:
        hx = _zeros(self, input)
    self.check_forward_args(input, hx, None)
    output, hidden = _gru(input, [hx], *_options(self))
    return output, hidden
