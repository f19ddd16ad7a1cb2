"""Calls of operators that eager PyTorch refuses, and a trace takes.

Only options and dtypes are looked at. Kernels check values: positions and divisors.
Where an option is a symbolic number, a guard keeps what was found, so a later call with
another answer is traced anew. PyTorch runs what a row refuses needlessly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    statically_known_true,
)
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten

# Whether eager PyTorch refuses a call with these arguments.
Refuses = Callable[[Mapping[str, Any]], bool]


def dtypes(values: Any) -> list[torch.dtype]:
    return [t.dtype for t in tree_leaves(values) if isinstance(t, Tensor)]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, torch.SymInt, torch.SymFloat)


def _is_zero(value: Any) -> bool:
    return _is_number(value) and guard_or_false(value == 0)


def _is_negative(value: Any) -> bool:
    return _is_number(value) and guard_or_false(value < 0)


def _overflows(number: Any, dtype: torch.dtype) -> bool:
    """Whether eager PyTorch cannot convert the number to the dtype. It lets negative
    integers wrap around in unsigned ones."""
    if not _is_number(number) or dtype is torch.bool or dtype.is_complex:
        return False
    if dtype.is_floating_point:
        highest = torch.finfo(dtype).max
        return _is_beyond(number, -highest, highest) and not _is_infinite(number)
    limits = torch.iinfo(dtype)
    is_integer = type(number) in (int, torch.SymInt)
    lowest = -limits.max if limits.min == 0 and is_integer else limits.min
    # A size has eight bytes.
    if type(number) is torch.SymInt and limits.bits == 64:
        return False
    is_nan = type(number) is float and math.isnan(number)
    return is_nan or _is_beyond(number, lowest, limits.max)


def _is_beyond(number: Any, lowest: Any, highest: Any) -> bool:
    return guard_or_false(number < lowest) or guard_or_false(number > highest)


def _is_infinite(number: Any) -> bool:
    return guard_or_false(number == math.inf) or guard_or_false(number == -math.inf)


def _value_overflows(name: str) -> Refuses:
    """The number `name` becomes an element of the result."""

    def refuses(named: Mapping[str, Any]) -> bool:
        tensor, dtype = named.get("self"), named.get("dtype")
        if dtype is None and isinstance(tensor, Tensor):
            dtype = tensor.dtype
        return dtype is not None and _overflows(named[name], dtype)

    return refuses


def _bounds_are_bools(named: Mapping[str, Any]) -> bool:
    """Whether the result of a clamp is of bools: a number as a bound makes it another."""
    bounds = (named.get("min"), named.get("max"))
    return named["self"].dtype is torch.bool and all(
        type(bound) is bool for bound in bounds if bound is not None
    )


def _bound_overflows(named: Mapping[str, Any]) -> bool:
    given: tuple[Any, ...] = (named.get("min"), named.get("max"))
    bounds = [bound for bound in given if _is_number(bound)]
    dtype = named["self"].dtype
    floats = [b for b in bounds if type(b) in (float, torch.SymFloat)]
    if not dtype.is_floating_point and floats:
        dtype = torch.get_default_dtype()
    # A bound that is NaN is the result, so PyTorch converts no other one.
    if any(type(bound) is float and math.isnan(bound) for bound in floats):
        return False
    return any(_overflows(bound, dtype) for bound in bounds)


def _divides_by_zero(named: Mapping[str, Any]) -> bool:
    other = named["other"]
    return (
        named.get("rounding_mode", "floor") is not None
        and type(other) in (int, torch.SymInt)
        and _is_zero(other)
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


# What a norm multiplies, adds, and keeps of all batches.
_OF_NORMS = ("weight", "bias", "running_mean", "running_var")


def _norm(named: Mapping[str, Any]) -> bool:
    """Parameters have the dtype of the input, or f32 beside one of two bytes."""
    dtype = named["input"].dtype
    given = [named[name] for name in _OF_NORMS if named.get(name) is not None]
    found = {parameter.dtype for parameter in given}
    return (
        bool(found)
        and found != {dtype}
        and (dtype.itemsize != 2 or found != {torch.float32})
    )


def _convolution(named: Mapping[str, Any]) -> bool:
    stride, dilation = named["stride"], named["dilation"]
    if any(guard_or_false(step <= 0) for step in dilation):
        return True
    return named["transposed"] and any(
        guard_or_false(more >= step) and guard_or_false(more >= apart)
        for more, step, apart in zip(named["output_padding"], stride, dilation)
    )


def _dim_is_beyond(named: Mapping[str, Any]) -> bool:
    tensor = named.get("self", named.get("grad_output"))
    rank = max(tensor.dim(), 1)
    return not -rank <= named["dim"] < rank


def _either(first: Refuses, second: Refuses) -> Refuses:
    return lambda named: first(named) or second(named)


def _no_float(*names: str) -> Refuses:
    """None of these arguments is a tensor of floats or of complex numbers."""
    return lambda named: (
        not any(d.is_floating_point or d.is_complex for d in _dtypes_of(named, names))
    )


def _not_real(*names: str) -> Refuses:
    """One of these arguments is a tensor, but not of floats."""
    return lambda named: not all(d.is_floating_point for d in _dtypes_of(named, names))


def _differ(*names: str) -> Refuses:
    """The tensors among these arguments have not one dtype."""
    return lambda named: len(set(_dtypes_of(named, names))) > 1


def _dtypes_of(named: Mapping[str, Any], names: tuple[str, ...]) -> list[torch.dtype]:
    return dtypes([named[name] for name in names])


def _is_bool(named: Mapping[str, Any]) -> bool:
    return named["self"].dtype is torch.bool


# Dtypes for which few of eager PyTorch's operators have kernels.
_RARE = {
    torch.complex32,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.uint16,
    torch.uint32,
    torch.uint64,
}


def _is_rare(named: Mapping[str, Any]) -> bool:
    return not _RARE.isdisjoint([named.get("dtype"), *dtypes(list(named.values()))])


def _is_of_two_bytes(named: Mapping[str, Any]) -> bool:
    return named["self"].is_floating_point() and named["self"].itemsize == 2


def _complex(named: Mapping[str, Any]) -> bool:
    real, imaginary = named["real"].dtype, named["imag"].dtype
    return real != imaginary or real not in (torch.half, torch.float, torch.double)


def _heaviside(named: Mapping[str, Any]) -> bool:
    left, right = named["self"].dtype, named["values"].dtype
    return left != right or left.is_complex


def _nll_loss(named: Mapping[str, Any]) -> bool:
    target = named["target"].dtype
    return _not_real("self")(named) or target not in (torch.int64, torch.uint8)


def _max_pool(named: Mapping[str, Any]) -> bool:
    """A pool of one row may come from max_pool1d, which has no kernel for integers."""
    image = named["self"]
    return _no_float("self")(named) and statically_known_true(image.shape[-2] == 1)


_OF_OPTIONS: dict[OpOverload, Refuses] = {
    **dict.fromkeys(
        (
            aten.frac.default,
            aten.hardsigmoid.default,
            aten.hardswish.default,
            aten.im2col.default,
            aten.lerp.Scalar,
            aten.lerp.Tensor,
            aten.log_sigmoid_forward.default,
            aten.mish.default,
            aten.softplus.default,
        ),
        _no_float("self"),
    ),
    aten.glu.default: _not_real("self"),
    aten.max_unpool3d.default: _not_real("self"),
    aten.nll_loss_forward.default: _nll_loss,
    aten.nll_loss2d_forward.default: _nll_loss,
    aten.soft_margin_loss.default: lambda named: (
        _not_real("self")(named) or named["target"].is_complex()
    ),
    aten.binary_cross_entropy.default: _differ("self", "target", "weight"),
    aten.binary_cross_entropy_with_logits.default: _not_real("target", "weight"),
    aten.linalg_cross.default: _either(_is_bool, _differ("self", "other")),
    aten.index_select.default: lambda named: (
        named["index"].dtype not in (torch.int32, torch.int64)
    ),
    aten.mvlgamma.default: _is_bool,
    aten.logaddexp.default: _no_float("self", "other"),
    aten.logaddexp2.default: _no_float("self", "other"),
    aten.complex.default: _complex,
    aten.heaviside.default: _heaviside,
    **dict.fromkeys(
        (
            aten.avg_pool3d.default,
            aten.special_modified_bessel_i0.default,
            aten.special_modified_bessel_i1.default,
        ),
        _is_of_two_bytes,
    ),
    **dict.fromkeys(
        (aten.special_xlog1py.default, aten.xlogy.Tensor),
        lambda named: named["self"].is_complex() or named["other"].is_complex(),
    ),
    aten.nansum.default: lambda named: named["self"].is_complex(),
    aten.ldexp.Tensor: lambda named: (
        named["self"].is_floating_point() and named["other"].dtype is torch.bool
    ),
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.topk.default: lambda named: _is_bool(named) or named["self"].is_complex(),
    aten.masked_scatter.default: lambda named: named["mask"].dtype is not torch.bool,
    aten.clamp.Tensor: lambda named: dtypes([*named.values()]) == [torch.bool] * 3,
    **dict.fromkeys((aten.dot.default, aten.vdot.default), _is_bool),
    aten.celu.default: lambda named: _is_zero(named["alpha"]),
    aten.smooth_l1_loss.default: lambda named: _is_negative(named["beta"]),
    aten.floor_divide.default: _divides_by_zero,
    aten.floor_divide.Scalar: _divides_by_zero,
    aten.div.Scalar_mode: _divides_by_zero,
    aten.div.Tensor_mode: _divides_by_zero,
    **dict.fromkeys(
        (aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default),
        _either(_bounds_are_bools, _bound_overflows),
    ),
    aten.addmm.default: _addmm,
    aten.addmv.default: _addmv,
    aten.mv.default: _either(_is_bool, _differ("self", "vec")),
    aten.threshold.default: _either(_is_bool, _value_overflows("value")),
    aten.pow.Tensor_Scalar: lambda named: (
        _no_float("self")(named)
        and type(named["exponent"]) in (int, torch.SymInt)
        and _is_negative(named["exponent"])
    ),
    aten.pow.Tensor_Tensor: lambda named: (
        named["self"].dtype is torch.bool and named["exponent"].dtype is torch.bool
    ),
    **dict.fromkeys(
        (
            aten._batch_norm_with_update.default,
            aten._batch_norm_with_update_functional.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit_no_training.default,
            aten.native_batch_norm.default,
            aten.native_group_norm.default,
            aten.native_layer_norm.default,
        ),
        _norm,
    ),
    aten.convolution.default: _convolution,
    aten.index_add.default: _differ("self", "source"),
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
        }.items()
    },
}

# Operators that have no kernel for rare dtypes.
_OF_USUAL_DTYPES = (
    aten.channel_shuffle.default,
    aten.count_nonzero.default,
    aten.count_nonzero.dim_IntList,
    aten.digamma.default,
    aten.dot.default,
    aten.eye.default,
    aten.eye.m,
    aten.flip.default,
    aten.i0.default,
    aten.im2col.default,
    aten.isin.Tensor_Tensor,
    aten.isneginf.default,
    aten.isposinf.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.masked_scatter.default,
    aten.mv.default,
    aten.nan_to_num.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    aten.special_i1.default,
    aten.special_i1e.default,
    aten.special_modified_bessel_i0.default,
    aten.special_modified_bessel_i1.default,
    aten.take.default,
    aten.tril.default,
    aten.triu.default,
    aten.vdot.default,
)

REFUSES: dict[OpOverload, Refuses] = _OF_OPTIONS | {
    operator: _either(_is_rare, _OF_OPTIONS.get(operator, lambda named: False))
    for operator in _OF_USUAL_DTYPES
}
