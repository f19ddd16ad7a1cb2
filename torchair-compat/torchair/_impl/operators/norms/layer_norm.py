"""Norms that take away the mean: layers, layers of sums, and groups of channels.

After Ascend's API reference of torch_npu, pages npu_layer_norm_eval, npu_group_norm_silu
and npu_group_norm_swish, and of its kernels, pages aclnnAddLayerNorm and aclnnDeepNorm."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_operator


@npu_operator
def npu_layer_norm_eval(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, computed
    in f32. The result has the input's dtype.

    normalized_shape  the last dimensions of the input
    weight, bias      of this shape; None: ones and zeros

    RuntimeError: another shape or dtype.
    """
    name = "npu_layer_norm_eval"
    check_dtype(input, name, "input")
    shape = tuple(normalized_shape)
    fits = 0 < len(shape) <= input.dim() and tuple(input.shape[-len(shape) :]) == shape
    text = f"normalized_shape must be the last dimensions of {tuple(input.shape)}"
    check(fits, name, f"{text}, got {list(shape)}")
    for what, table in (("weight", weight), ("bias", bias)):
        check_dtype(table, name, what)
        check_shape(table, name, what, shape)
    y, _, _ = _normalised(input.to(torch.float32), len(shape), eps)
    return _affine(y, weight, bias).to(input.dtype)


@npu_operator
def npu_add_layer_norm(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float = 1e-05,
    additional_output: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The layer norm of x1 + x2 over the dimensions of gamma, computed in f32.

    x1, x2       floats of one shape; of two dtypes, results are f32
    gamma, beta  the shape of the last dimensions

    Returns (norm, mean, reciprocal root of the variance, sum). The norm is of the sum
    before it is rounded; mean and root are f32, with size 1 where they are taken. The sum
    is returned whatever `additional_output` says. RuntimeError: another shape or dtype.
    """
    name = "npu_add_layer_norm"
    _check_pair(name, ("x1", x1), ("x2", x2))
    _check_tables(name, x1, gamma, beta)
    kind = x1.dtype if x1.dtype == x2.dtype else torch.float32
    total = x1.to(torch.float32) + x2.to(torch.float32)
    y, mean, rstd = _normalised(total, gamma.dim(), epsilon)
    return _affine(y, gamma, beta).to(kind), mean, rstd, total.to(kind)


@npu_operator
def npu_deep_norm(
    x: Tensor,
    gx: Tensor,
    beta: Tensor,
    gamma: Tensor,
    alpha: float = 0.3,
    epsilon: float = 1e-06,
) -> tuple[Tensor, Tensor, Tensor]:
    """The layer norm of alpha * x + gx over the dimensions of gamma, computed in f32.

    Returns (mean, reciprocal root of the variance, norm): the former two are f32, with
    size 1 where they are taken; the norm has x's dtype. RuntimeError: another shape or
    dtype.
    """
    name = "npu_deep_norm"
    _check_pair(name, ("x", x), ("gx", gx))
    check(x.dtype == gx.dtype, name, f"gx must be {x.dtype} as x is, got {gx.dtype}")
    _check_tables(name, x, gamma, beta)
    total = alpha * x.to(torch.float32) + gx.to(torch.float32)
    y, mean, rstd = _normalised(total, gamma.dim(), epsilon)
    return mean, rstd, _affine(y, gamma, beta).to(x.dtype)


@npu_operator
def npu_group_norm_silu(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    group: int,
    eps: float = 0.00001,
) -> tuple[Tensor, Tensor, Tensor]:
    """silu of the group norm of (n, channels, ...), computed in f32.

    weight, bias  (channels,), of one dtype that is no narrower than the input's
    group         the number of groups of channels

    Returns (y, mean, reciprocal root of the variance) in the input's dtype; the latter two
    are (n, group). RuntimeError: another shape or dtype.
    """
    name = "npu_group_norm_silu"
    check(group > 0, name, f"group must be positive, got {group}")
    check(eps > 0, name, f"eps must be positive, got {eps}")
    y, mean, rstd = _group_norm(input, group, "group", weight, bias, eps, name)
    return functional.silu(y).to(input.dtype), mean, rstd


@npu_operator
def npu_group_norm_swish(
    input: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    eps: float | None = 1e-05,
    swish_scale: float | None = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """y * sigmoid(swish_scale * y) of the group norm y of (n, channels, ...), computed in
    f32.

    weight, bias  (channels,), in the input's dtype

    Returns (y, mean, reciprocal root of the variance) in the input's dtype; the latter two
    are (n, num_groups). RuntimeError: another shape or dtype.
    """
    name = "npu_group_norm_swish"
    check(num_groups > 0, name, f"num_groups must be positive, got {num_groups}")
    for what, table in (("weight", weight), ("bias", bias)):
        check_dtype(table, name, what, (input.dtype,))
    epsilon = 1e-05 if eps is None else eps
    y, mean, rstd = _group_norm(
        input, num_groups, "num_groups", weight, bias, epsilon, name
    )
    scale = 1.0 if swish_scale is None else swish_scale
    return (y * torch.sigmoid(scale * y)).to(input.dtype), mean, rstd


def _normalised(x: Tensor, dims: int, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """f32 x without its mean, over its deviation; the mean; and the reciprocal root."""
    over = list(range(-dims, 0))
    mean = x.mean(over, keepdim=True)
    centred = x - mean
    rstd = torch.rsqrt(centred.square().mean(over, keepdim=True) + epsilon)
    return centred * rstd, mean, rstd


def _affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * weight.to(torch.float32)
    return y if bias is None else y + bias.to(torch.float32)


def _check_pair(
    name: str, first: tuple[str, Tensor], second: tuple[str, Tensor]
) -> None:
    for what, value in (first, second):
        check_dtype(value, name, what)
    check_shape(second[1], name, second[0], tuple(first[1].shape))


def _check_tables(name: str, x: Tensor, gamma: Tensor, beta: Tensor) -> None:
    check_dtype(gamma, name, "gamma")
    check_dtype(beta, name, "beta", (gamma.dtype,))
    fits = 0 < gamma.dim() <= x.dim() and x.shape[-gamma.dim() :] == gamma.shape
    text = f"gamma must have the last dimensions of the rows, {tuple(x.shape)}"
    check(fits, name, f"{text}, got {tuple(gamma.shape)}")
    check_shape(beta, name, "beta", tuple(gamma.shape))


def _group_norm(
    input: Tensor,
    groups: int,
    what: str,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
    name: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm in f32; mean and reciprocal root in the input's dtype, (n, groups)."""
    check_dtype(input, name, "input")
    fits = 2 <= input.dim() <= 8
    check(fits, name, f"input must have 2 to 8 dimensions, got {input.dim()}")
    channels = input.shape[1]
    check(
        channels % groups == 0, name, f"{what} {groups} must divide {channels} channels"
    )
    wide = FLOATS if input.dtype != torch.float32 else (torch.float32,)
    for table, value in (("weight", weight), ("bias", bias)):
        check_dtype(value, name, table, wide)
        check_shape(value, name, table, (channels,))
    if weight is not None:
        check_dtype(bias, name, "bias", (weight.dtype,))
    parts = input.to(torch.float32).reshape(input.shape[0], groups, -1)
    y, mean, rstd = _normalised(parts, 1, epsilon)
    rest = (1,) * (input.dim() - 2)
    tables = [None if t is None else t.reshape(-1, *rest) for t in (weight, bias)]
    norm = _affine(y.reshape(input.shape), *tables)
    return norm, mean.squeeze(-1).to(input.dtype), rstd.squeeze(-1).to(input.dtype)
