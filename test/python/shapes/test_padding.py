"""gears_pad: sizes that are no gears run in programs of larger gears, or are refused."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import anabranch
from anabranch import CompileError, Config

GEARS = (4, 8, 16)
SIZES = (5, 4, 16, 3, 2, 11)


def rows(count):
    return (torch.randn(count, 8),)


def tokens(count):
    return torch.randn(2, count, 8), (torch.rand(2, count) > 0.3).long()


def heads(x):
    return x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], 8)


def causal(x):
    h = heads(x[None])
    return joined(functional.scaled_dot_product_attention(h, h, h, is_causal=True))


def masked(x, mask):
    h = heads(x)
    length = x.shape[1]
    visible = (mask != 0)[:, None, None, :].expand(2, 1, length, length)
    return joined(functional.scaled_dot_product_attention(h, h, h, attn_mask=visible))


def pooled(x, mask):
    weights = mask[:, :, None].float()
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def numbered(x):
    return x + torch.arange(x.shape[0])[:, None], x.argmax(-1)


def written(x):
    x.mul_(2)
    return x.sum(-1)


PASSES = [
    (lambda x: torch.relu(functional.linear(x, torch.ones(5, 8))), rows, 0),
    (lambda x: torch.softmax(x, -1), rows, 0),
    (lambda x: functional.layer_norm(x, (8,)), rows, 0),
    (lambda x: torch.cat([x, x * 2], 1).view(-1, 4, 4), rows, 0),
    (lambda x: (x[0] + 1, x.t() * 3, x[:, 2:5].exp()), rows, 0),
    (lambda x: (x.sum(0), x.t() @ x), rows, 0),
    (numbered, rows, 0),
    (causal, rows, 0),
    (masked, tokens, 1),
    (pooled, tokens, 1),
]


@pytest.mark.parametrize(("function", "make", "dim"), PASSES)
def test_results_are_those_of_the_real_size(function, make, dim):
    compiled = anabranch.compile(
        function, config=Config(gears_pad=True), fullgraph=True
    )
    for number, size in enumerate(SIZES):
        arguments = make(size)
        if number == 0:
            for argument in arguments:
                anabranch.set_gears(argument, {dim: GEARS})
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    assert anabranch.counters.graphs == 1 and anabranch.counters.eager_graphs == 0


REFUSED = [
    (lambda x: torch.softmax(x, 0), "reduces over the padded dimension"),
    (lambda x: (x + 1).sum(0), "reduces over the padded dimension"),
    (lambda x: x.mean(0), "computes with the padded size"),
    (lambda x: x * x.shape[0], "computes with the padded size"),
    (lambda x: x.flip(0), "reads at a place"),
    (lambda x: x.cumsum(0), "does more with the padded dimension"),
    (lambda x: torch.cat([x, x]), "joined along the padded dimension"),
    (lambda x: x.t().exp() @ x.exp(), "reduces over the padded dimension"),
    (lambda x: x.sort(0).values, "does more with the padded dimension"),
    (written, "an input is written to"),
    (lambda x: x[:, 2:5], "a size is a result"),
    (
        lambda x: functional.scaled_dot_product_attention(x, x, x),
        "attention sees the padding",
    ),
    (lambda x: x[1:] - x[:-1], "computed"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED)
def test_what_would_change_is_refused(function, text):
    (x,) = rows(4)
    anabranch.set_gears(x, {0: GEARS})
    config = Config(gears_pad=True)
    with pytest.raises(CompileError, match=f"gears_pad: .*({text})"):
        anabranch.compile(function, config=config, fullgraph=True)(x)


def test_sizes_above_all_gears_compile_again():
    (x,) = rows(5)
    anabranch.set_gears(x, {0: GEARS})
    config = Config(gears_pad=True)
    compiled = anabranch.compile(torch.exp, config=config, fullgraph=True)
    compiled(x)
    (larger,) = rows(17)
    torch.testing.assert_close(compiled(larger), torch.exp(larger))
    assert anabranch.counters.graphs == 2


def test_the_next_larger_combination_is_taken():
    a, b = torch.randn(3, 8), torch.randn(6, 8)
    for tensor in (a, b):
        anabranch.set_gears(tensor, {0: GEARS})
    config = Config(gears_pad=True, gears_merge="product")
    compiled = anabranch.compile(lambda a, b: a @ b.t(), config=config, fullgraph=True)
    for left, right in ((3, 6), (16, 2), (9, 9), (4, 16)):
        x = a if left == 3 else torch.randn(left, 8)
        y = b if left == 3 else torch.randn(right, 8)
        torch.testing.assert_close(compiled(x, y), x @ y.t())
    assert anabranch.counters.graphs == 1
