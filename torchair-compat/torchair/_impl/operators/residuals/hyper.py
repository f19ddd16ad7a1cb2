"""Hyper-connections: n residual streams of a layer, read, written and mixed.

After Ascend's API reference of torch_npu, pages npu_mhc_pre, npu_mhc_post and
npu_mhc_sinkhorn."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check, check_dtype, check_shape
from ..definition import npu_operator

_HALVES = (torch.float16, torch.bfloat16)
_F32 = (torch.float32,)


@npu_operator
def npu_mhc_pre(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    *,
    gamma: Tensor | None = None,
    norm_eps: float = 1e-6,
    hc_eps: float = 1e-6,
    out_flag: int = 0,
    inner_precise: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The input of a layer from n streams, and what its output is written back by.

    x              float16 or bfloat16 (..., n, d), of 3 or 4 dimensions
    phi            f32 (n^2 + 2 n, n d), or (2 n, n d): rows for reading, for writing, and
                   for mixing
    alpha          f32 (3,), or (2,): a factor of each kind of rows
    bias           f32, one for each row of phi
    gamma          f32 (n, d): of the RMS norm of all streams together
    inner_precise  1 rounds the operands of the product to ten bits of mantissa

    With mix = (x * gamma) @ phi^T and root = 1 / sqrt(mean(x^2) + norm_eps), h = mix * root
    * alpha + bias. Reading is by sigmoid(h) + hc_eps, writing by 2 sigmoid(h), mixing by h,
    which npu_mhc_sinkhorn takes. All are computed in f32.

    Returns (the sum of streams by reading (..., d) in x's dtype, writing (..., n), mixing
    (..., n, n), root (...), mix, reading (..., n)). Mixing is empty for rows of two kinds;
    the last three are without `out_flag`. RuntimeError: another shape, dtype or option.
    """
    name = "npu_mhc_pre"
    check_dtype(x, name, "x", _HALVES)
    check(x.dim() in (3, 4), name, f"x must have 3 or 4 dimensions, got {x.dim()}")
    for what, flag in (("out_flag", out_flag), ("inner_precise", inner_precise)):
        check(flag in (0, 1), name, f"{what} must be 0 or 1, got {flag}")
    n, d = x.shape[-2:]
    mixes = alpha.numel() == 3
    rows = n * (n + 2) if mixes else 2 * n
    for what, table, shapes in (
        ("alpha", alpha, [(3,), (2,)]),
        ("phi", phi, [(rows, n * d)]),
        ("bias", bias, [(rows,)]),
        ("gamma", gamma, [(n, d)]),
    ):
        check_dtype(table, name, what, _F32)
        check_shape(table, name, what, *shapes)
    streams = x.to(torch.float32)
    flat = streams.flatten(-2)
    root = torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)
    scaled = flat if gamma is None else flat * gamma.reshape(-1)
    if inner_precise == 1:
        scaled, phi = _ten_bits(scaled), _ten_bits(phi)
    mix = functional.linear(scaled, phi)
    sizes = [n, n, n * n] if mixes else [n, n]
    kinds = [
        h * a + b
        for h, a, b in zip((mix * root).split(sizes, -1), alpha, bias.split(sizes))
    ]
    reading = torch.sigmoid(kinds[0]) + hc_eps
    taken = (reading.unsqueeze(-1) * streams).sum(-2).to(x.dtype)
    mixing = kinds[2].unflatten(-1, (n, n)) if mixes else x.new_empty(0).float()
    more = (root.squeeze(-1), mix, reading)
    if out_flag == 0:
        more = (mix.new_empty(0), mix.new_empty(0), mix.new_empty(0))
    return taken, 2 * torch.sigmoid(kinds[1]), mixing, *more


def _ten_bits(values: Tensor) -> Tensor:
    """f32 values rounded to ten bits of mantissa, halves away from zero."""
    return ((((values.view(torch.int32) >> 12) + 1) >> 1) << 13).view(torch.float32)


@npu_operator
def npu_mhc_post(
    x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor
) -> Tensor:
    """The n streams after a layer: those before it mixed, plus its output by h_post.

    x       float16 or bfloat16 (..., n, d), of 3 or 4 dimensions
    h_res   f32 (..., n, n): stream j becomes the sum over i of h_res[i, j] x[i]; None
            leaves the streams as they are
    h_out   (..., d) in x's dtype
    h_post  f32 (..., n)

    Computed in f32; the result has x's dtype. RuntimeError: another shape or dtype.
    """
    name = "npu_mhc_post"
    check_dtype(x, name, "x", _HALVES)
    check(x.dim() in (3, 4), name, f"x must have 3 or 4 dimensions, got {x.dim()}")
    *rows, n, d = x.shape
    for what, table, kinds, shape in (
        ("h_res", h_res, _F32, (*rows, n, n)),
        ("h_out", h_out, (x.dtype,), (*rows, d)),
        ("h_post", h_post, _F32, (*rows, n)),
    ):
        check_dtype(table, name, what, kinds)
        check_shape(table, name, what, shape)
    streams = x.to(torch.float32)
    if h_res is not None:
        streams = (h_res.unsqueeze(-1) * streams.unsqueeze(-2)).sum(-3)
    written = h_post.unsqueeze(-1) * h_out.to(torch.float32).unsqueeze(-2)
    return (streams + written).to(x.dtype)


@npu_operator
def npu_mhc_sinkhorn(
    x: Tensor,
    *,
    eps: float = 1e-6,
    num_iters: Annotated[int, "SymInt"] = 20,
    out_flag: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix whose rows and columns sum to about one: softmax(x) + eps along rows, then
    columns divided by their sums plus eps, then rows and columns num_iters - 1 times.

    x          f32 (..., n, n) of 3 or 4 dimensions; n is 4, 6 or 8
    num_iters  from 1 to 100

    Returns the matrix; and with `out_flag` 1, else empty, the matrix after each step
    (2 num_iters, n, n, ...) and the sums that each step divides by (2 num_iters, n, ...),
    of which the first are 0. RuntimeError: another shape, dtype or option.
    """
    name = "npu_mhc_sinkhorn"
    check_dtype(x, name, "x", _F32)
    fits = x.dim() in (3, 4) and x.shape[-1] == x.shape[-2] and x.shape[-1] in (4, 6, 8)
    text = "x must be 3 or 4 dimensions of matrices of 4, 6 or 8 rows, got"
    check(fits, name, f"{text} {tuple(x.shape)}")
    fits = 1 <= num_iters <= 100
    check(fits, name, f"num_iters must be from 1 to 100, got {num_iters}")
    check(out_flag in (0, 1), name, f"out_flag must be 0 or 1, got {out_flag}")
    matrix = torch.softmax(x, -1) + eps
    matrices, sums = [matrix], [torch.zeros_like(x[..., 0])]
    for step in range(1, 2 * num_iters):
        total = matrix.sum(-2 if step % 2 else -1, keepdim=True) + eps
        matrix = matrix / total
        matrices.append(matrix)
        sums.append(total.flatten(-2))
    if out_flag == 0:
        return matrix, x.new_empty(0), x.new_empty(0)
    first = torch.stack(matrices).movedim((-2, -1), (1, 2))
    return matrix, first, torch.stack(sums).movedim(-1, 1)
