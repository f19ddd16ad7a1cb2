"""Decomposes operators of lists of tensors, which optimisers and the clipping of
gradients call, into those of single tensors. PyTorch's CPU kernels do the same:

    _foreach_add.List([a, b], [c, d], alpha=2)      [add(a, c, alpha=2), add(b, d, alpha=2)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

_PREFIX = "_foreach_"

# The operator of one tensor where it has another name. None: PyTorch runs the operator.
_SINGLE = {
    "copy": aten.copy,
    "max": aten.max,
    "maximum.Scalar": aten.clamp_min,
    "maximum.ScalarList": aten.clamp_min,
    "minimum.Scalar": aten.clamp_max,
    "minimum.ScalarList": aten.clamp_max,
    "norm.Scalar": aten.linalg_vector_norm,
    "zero": aten.zeros_like,
    "powsum.Scalar": None,
    # One tensor holds the scalars of all positions.
    "addcdiv.Tensor": None,
    "addcmul.Tensor": None,
}

# Arguments that the operator of one tensor takes by name only, and that name.
_NAMES = {"alpha": "alpha", "dtype": "dtype", "memory_format": "memory_format"}
_NAMES_OF_SUMS = _NAMES | {"value": "value", "scalars": "value"}
_WITHOUT_EFFECT = "non_blocking"


def decompositions() -> dict[Any, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = {}
    for name in filter(lambda name: name.startswith(_PREFIX), _names()):
        packet = getattr(aten, name)
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            if not operator._schema.is_mutable and (single := _single(operator)):
                table[operator] = _for_each(operator, single)
    return table


def _names() -> set[str]:
    """The names of ATen's operators, without those of their overloads."""
    every = torch._C._dispatch_get_all_op_names()
    found = (name.removeprefix("aten::") for name in every if name.startswith("aten::"))
    return {name.partition(".")[0] for name in found}


def _single(operator: OpOverload) -> Any:
    """The operator of one tensor; None if there is none."""
    name = operator._schema.name.removeprefix(f"aten::{_PREFIX}")
    overload = f"{name}.{operator._overloadname}"
    if overload in _SINGLE:
        return _SINGLE[overload]
    return _SINGLE.get(name) or getattr(aten, name, None)


def _for_each(operator: OpOverload, single: Any) -> Callable[..., Any]:
    order = [argument.name for argument in operator._schema.arguments]
    sums = single in (aten.addcmul, aten.addcdiv)
    names = _NAMES_OF_SUMS if sums else _NAMES

    def decompose(*given: Any, **named: Any) -> list[Tensor]:
        values = dict(zip(order, given)) | named
        values.pop(_WITHOUT_EFFECT, None)
        lengths = [len(value) for value in values.values() if _is_list(value)]
        return [_call(single, names, _at(values, at)) for at in range(lengths[0])]

    return decompose


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence)


def _at(values: Mapping[str, Any], position: int) -> dict[str, Any]:
    """The arguments of one position of the lists."""
    return {
        name: value[position] if _is_list(value) else value
        for name, value in values.items()
    }


def _call(single: Any, names: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    by_place = [value for name, value in values.items() if name not in names]
    by_name = {names[n]: value for n, value in values.items() if n in names}
    return single(*by_place, **by_name)
