"""Hyper-connections against float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled


def both(function, *arguments):
    yield function(*arguments)
    yield compiled(function)(*arguments)


def streams(kind: torch.dtype, *rows: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*rows, 4, 16).to(kind)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_reading(kind, mixes) -> None:
    x = streams(kind, 2, 3)
    rows = 24 if mixes else 8
    phi, bias, gamma = torch.randn(rows, 64), torch.randn(rows), torch.rand(4, 16)
    alpha = torch.tensor([0.5, 0.25, 0.75][: 3 if mixes else 2])

    def read(x, phi, alpha, bias, gamma):
        return torch_npu.npu_mhc_pre(x, phi, alpha, bias, gamma=gamma, out_flag=1)

    wide = x.double().flatten(-2)
    root = 1 / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    mix = (wide * gamma.double().flatten()) @ phi.double().t()
    h = mix * root
    reading = torch.sigmoid(h[..., :4] * 0.5 + bias[:4].double()) + 1e-6
    writing = 2 * torch.sigmoid(h[..., 4:8] * 0.25 + bias[4:8].double())
    mixing = (h[..., 8:] * 0.75 + bias[8:].double()).reshape(2, 3, 4, -1)
    taken = (reading.unsqueeze(-1) * x.double()).sum(-2).to(kind)
    wanted = [taken, writing, mixing, root.squeeze(-1), mix, reading]
    for found in both(read, x, phi, alpha, bias, gamma):
        torch.testing.assert_close(found[0], taken)
        for one, other in list(zip(found, wanted))[1:]:
            if mixes or other is not mixing:
                torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
        assert mixes or found[2].numel() == 0


def test_ten_bits_of_mantissa() -> None:
    x, phi = streams(torch.bfloat16, 3), torch.randn(24, 64)
    alpha, bias = torch.ones(3), torch.zeros(24)
    mix = [
        torch_npu.npu_mhc_pre(x, phi, alpha, bias, out_flag=1, inner_precise=mode)[4]
        for mode in (0, 1)
    ]
    # bfloat16 has fewer bits already: only phi is rounded.
    size = (x.double().flatten(-2).abs() @ phi.double().abs().t()) * 2**-11
    difference = (mix[0] - mix[1]).abs()
    assert (difference <= size).all() and difference.any()


@pytest.mark.parametrize("mixed", [True, False])
def test_writing(mixed) -> None:
    x = streams(torch.bfloat16, 2, 3)
    out, post = torch.randn(2, 3, 16).bfloat16(), torch.randn(2, 3, 4)
    res = torch.rand(2, 3, 4, 4) if mixed else None

    def write(x, out, post):
        return torch_npu.npu_mhc_post(x, res, out, post)

    wide = x.double()
    if mixed:
        wide = torch.einsum("bsij,bsid->bsjd", res.double(), wide)
    wanted = wide + post.double().unsqueeze(-1) * out.double().unsqueeze(-2)
    for found in both(write, x, out, post):
        torch.testing.assert_close(found, wanted.bfloat16())


def test_rows_and_columns_sum_to_one() -> None:
    torch.manual_seed(0)
    x, eps = torch.randn(5, 4, 4), 1e-6

    def balance(x):
        return torch_npu.npu_mhc_sinkhorn(x, num_iters=8, out_flag=1)

    y = torch.softmax(x.double(), -1) + eps
    y = y / (y.sum(-2, keepdim=True) + eps)
    first = y
    for _ in range(7):
        y = y / (y.sum(-1, keepdim=True) + eps)
        y = y / (y.sum(-2, keepdim=True) + eps)
    for found, matrices, sums in both(balance, x):
        torch.testing.assert_close(found.double(), y, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.sum(-1), torch.ones(5, 4), rtol=1e-2, atol=0)
        assert matrices.shape == (16, 4, 4, 5) and sums.shape == (16, 4, 5)
        torch.testing.assert_close(
            matrices[1].movedim(-1, 0).double(), first, rtol=1e-5, atol=1e-6
        )
        torch.testing.assert_close(matrices[-1].movedim(-1, 0), found)
        back = matrices[1].movedim(-1, 0) * sums[1].t().unsqueeze(-2)
        torch.testing.assert_close(back, matrices[0].movedim(-1, 0))
        assert not sums[0].any()
