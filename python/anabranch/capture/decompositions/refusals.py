"""Finds calls that eager PyTorch refuses, but a trace does not.

PyTorch's kernels check options and dtypes that its meta kernels and decompositions leave
unchecked: `celu` with `alpha=0`, a number that its dtype cannot hold, an operand of
another dtype. A compiled call would return numbers where eager code fails. PyTorch runs a
graph with such a call, so the caller sees eager's own error.

Only literals and dtypes are looked at. Kernels check values: positions and divisors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch import Tensor
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

# Whether eager PyTorch refuses a call with these arguments.
Refuses = Callable[[Mapping[str, Any]], bool]


class Refused(Exception):
    """Eager PyTorch refuses a call of the graph."""


def checked(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The table of decompositions, which look at their calls first."""
    found = dict(table)
    for operator in _REFUSES.keys() & found.keys():
        found[operator] = _checked(operator, found[operator])
    return found


def _checked(operator: OpOverload, parts: Callable[..., Any]) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        _check(operator, args, kwargs)
        return parts(*args, **kwargs)

    return decomposed


def check_calls(graph: torch.fx.Graph) -> None:
    """Refused: eager PyTorch refuses a call of this graph."""
    for node in graph.nodes:
        if node.target in _REFUSES:
            values = torch.fx.map_arg((node.args, node.kwargs), _value)
            _check(node.target, *values)


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _check(operator: OpOverload, args: Any, kwargs: Any) -> None:
    named = {a.name: a.default_value for a in operator._schema.arguments}
    named |= dict(zip(named, args)) | kwargs
    if _REFUSES[operator](named):
        raise Refused(f"eager PyTorch refuses this call of {operator}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _overflows(number: Any, dtype: torch.dtype) -> bool:
    """Whether eager PyTorch cannot convert the literal to the dtype. It lets unsigned
    integers wrap negative numbers."""
    if not _is_number(number) or dtype is torch.bool or dtype.is_complex:
        return False
    if dtype.is_floating_point:
        return math.isfinite(number) and abs(number) > torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    lowest = -limits.max if limits.min == 0 else limits.min
    return not lowest <= number <= limits.max


def _value_overflows(name: str) -> Refuses:
    """The number `name` becomes an element of the result."""

    def refuses(named: Mapping[str, Any]) -> bool:
        tensor, dtype = named.get("self"), named.get("dtype")
        if dtype is None and isinstance(tensor, Tensor):
            dtype = tensor.dtype
        return dtype is not None and _overflows(named[name], dtype)

    return refuses


def _bound_overflows(named: Mapping[str, Any]) -> bool:
    given: tuple[Any, ...] = (named.get("min"), named.get("max"))
    bounds = [bound for bound in given if _is_number(bound)]
    dtype = named["self"].dtype
    if not dtype.is_floating_point and float in map(type, bounds):
        dtype = torch.get_default_dtype()
    # A bound that is NaN is the result, so PyTorch converts no other one.
    if any(map(math.isnan, bounds)):
        return False
    return any(_overflows(bound, dtype) for bound in bounds)


def _divides_by_zero(named: Mapping[str, Any]) -> bool:
    other = named["other"]
    return (
        named.get("rounding_mode", "floor") is not None
        and type(other) is int
        and other == 0
        and not named["self"].is_floating_point()
    )


def _does_not_expand(added: Tensor, *sizes: Any) -> bool:
    """Whether a size of `added` can be neither one nor that of the product."""
    pairs = zip(reversed(added.shape), reversed(sizes))
    return any(
        statically_known_true(mine != 1) and statically_known_true(mine != size)
        for mine, size in pairs
    )


def _addmm(named: Mapping[str, Any]) -> bool:
    added, left, right = named["self"], named["mat1"], named["mat2"]
    return added.dtype != right.dtype or _does_not_expand(
        added, left.shape[0], right.shape[1]
    )


def _addmv(named: Mapping[str, Any]) -> bool:
    added, matrix, vector = named["self"], named["mat"], named["vec"]
    same = added.dtype == matrix.dtype == vector.dtype
    return not same or _does_not_expand(added, matrix.shape[0])


def _norm(named: Mapping[str, Any]) -> bool:
    """Parameters have the dtype of the input, or f32 beside one of two bytes."""
    dtype = named["input"].dtype
    given = [named[name] for name in ("weight", "bias") if named[name] is not None]
    found = {parameter.dtype for parameter in given}
    return (
        bool(found)
        and found != {dtype}
        and (dtype.itemsize != 2 or found != {torch.float32})
    )


def _convolution(named: Mapping[str, Any]) -> bool:
    stride, dilation = named["stride"], named["dilation"]
    if any(type(step) is int and step <= 0 for step in dilation):
        return True
    return named["transposed"] and any(
        type(more) is int and more >= max(step, apart)
        for more, step, apart in zip(named["output_padding"], stride, dilation)
    )


def _dim_is_beyond(named: Mapping[str, Any]) -> bool:
    tensor = named.get("self", named.get("grad_output"))
    rank = max(tensor.dim(), 1)
    return not -rank <= named["dim"] < rank


def _is_integral(named: Mapping[str, Any]) -> bool:
    dtype = named["self"].dtype
    return not (dtype.is_floating_point or dtype.is_complex)


_REFUSES: dict[OpOverload, Refuses] = {
    **dict.fromkeys(
        (
            aten.frac.default,
            aten.hardsigmoid.default,
            aten.hardswish.default,
            aten.lerp.Scalar,
            aten.lerp.Tensor,
            aten.log_sigmoid_forward.default,
            aten.mish.default,
            aten.softplus.default,
        ),
        _is_integral,
    ),
    aten.celu.default: lambda named: (
        named["alpha"] in (0, False) and _is_number(named["alpha"])
    ),
    aten.smooth_l1_loss.default: lambda named: (
        _is_number(named["beta"]) and named["beta"] < 0
    ),
    aten.floor_divide.default: _divides_by_zero,
    aten.floor_divide.Scalar: _divides_by_zero,
    aten.div.Scalar_mode: _divides_by_zero,
    aten.div.Tensor_mode: _divides_by_zero,
    aten.clamp.default: _bound_overflows,
    aten.clamp_min.default: _bound_overflows,
    aten.clamp_max.default: _bound_overflows,
    aten.addmm.default: _addmm,
    aten.addmv.default: _addmv,
    aten.mv.default: lambda named: named["self"].dtype != named["vec"].dtype,
    aten.pow.Tensor_Tensor: lambda named: (
        named["self"].dtype is torch.bool and named["exponent"].dtype is torch.bool
    ),
    aten.native_layer_norm.default: _norm,
    aten.native_group_norm.default: _norm,
    aten.convolution.default: _convolution,
    aten.index_add.default: lambda named: named["self"].dtype != named["source"].dtype,
    **dict.fromkeys(
        (
            aten._softmax.default,
            aten._log_softmax.default,
            aten._safe_softmax.default,
            aten._softmax_backward_data.default,
            aten.sort.default,
            aten.sort.stable,
            aten.slice_scatter.default,
            aten.select_scatter.default,
        ),
        _dim_is_beyond,
    ),
    **{
        operator: _value_overflows(name)
        for operator, name in {
            aten.full.default: "fill_value",
            aten.full_like.default: "fill_value",
            aten.new_full.default: "fill_value",
            aten.fill.Scalar: "value",
            aten.masked_fill.Scalar: "value",
            aten.index_fill.int_Scalar: "value",
            aten.scatter.value: "value",
            aten.constant_pad_nd.default: "value",
            aten.threshold.default: "value",
        }.items()
    },
}
