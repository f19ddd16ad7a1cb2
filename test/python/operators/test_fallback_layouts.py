"""Operators that PyTorch runs get tensors with eager's layout, and their results keep the
layout that eager gives them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from checking import assert_equal, check, compiled, rand

import anabranch

LAYOUTS = [
    lambda: torch.rand(3, 4, 5).transpose(0, 1),
    lambda: torch.rand(4, 3, 5).transpose(1, 2),
    lambda: torch.rand(3, 4, 5).permute(2, 0, 1),
    lambda: torch.rand(3, 8, 5)[:, ::2],
    lambda: torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
]

OPERATORS = [
    torch.special.bessel_j0,
    lambda x: torch.mode(x, 1)[0],
    lambda x: torch.kthvalue(x, 2, 1)[1],
    lambda x: torch.special.bessel_j0(x).transpose(0, 1),
    lambda x: (torch.special.bessel_j0(x), torch.special.bessel_j0(x) + 1),
    lambda x: torch.linalg.qr(x)[0],
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
def test_results_have_the_strides_of_eager(operator, dynamic):
    """Results have eager's strides: of arguments, and of results of kernels."""

    def function(*arguments):
        return [operator(y) for x in arguments for y in (x, x + 1, x.mT)]

    check(function, *(make() for make in LAYOUTS), dynamic=dynamic)
    assert anabranch.counters.fallback_calls > 0


@pytest.mark.parametrize(
    "fold",
    [
        lambda x: x.contiguous(),
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: x * 1,
        lambda x: (x * 1).detach(),
        lambda x: x.contiguous().clone(),
        lambda x: torch.cat([x]),
    ],
)
def test_an_operand_that_was_made_contiguous_is_contiguous(fold):
    """PyTorch's median is wrong for an expanded tensor, and right for its copy."""
    x = rand(3, 1, 5).expand(3, 4, 5)

    def function(x):
        return torch.median(fold(x), 1)[0], torch.median(fold(x), 0)[1]

    check(function, x)
    assert anabranch.counters.fallback_calls > 0


def test_strided_indices_of_bags():
    table, indices = rand(9, 4), torch.randint(0, 9, (3, 8))[:, ::2]
    check(lambda t, i: F.embedding_bag(i.contiguous(), t, mode="sum"), table, indices)


@pytest.mark.parametrize("masked", [False, True])
def test_training_of_attention_whose_result_is_kept(masked):
    """The backward graph expects the saved result with its traced strides."""

    def loss(run, q, k, v):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        run(*leaves).square().sum().backward()
        return [x.grad for x in leaves]

    def attention(q, k, v):
        q = (q * 2).view(2, 9, 4, 8).transpose(1, 2)
        mask = torch.ones(9, 9, dtype=torch.bool).tril() if masked else None
        result = F.scaled_dot_product_attention(
            q,
            k[:, :, None].expand(2, 2, 2, 9, 8).reshape(2, 4, 9, 8),
            v.repeat(1, 2, 1, 1),
            attn_mask=mask,
        )
        return torch.cat(result.chunk(2, dim=1), dim=-1)

    arguments = rand(2, 9, 32), rand(2, 2, 9, 8), rand(2, 2, 9, 8)
    assert_equal(
        loss(compiled(attention), *arguments),
        loss(attention, *arguments),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("compute", [lambda x: x, lambda x: x + 1, torch.clone])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "resize",
    [
        lambda x: torch.ops.aten.resize(x, [2, 5]),
        lambda x: torch.ops.aten.resize_as(x, torch.zeros(3, 4)),
        lambda x: torch.ops.aten.resize(x, [2, 5]) * 2,
    ],
)
def test_a_resize_keeps_elements_in_the_order_of_the_memory(resize, layout, compute):
    torch._dynamo.reset()
    check(lambda x: resize(compute(x)), layout(), dynamic=False)
