"""Calls with sizes of zero and one, where a trace took a size for two or more and the
caller has dropped the guards, equal eager."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.decorators import mark_unbacked
from torch.nn import functional as F

import anabranch

TRACED, CALLED = 6, (1, 2, 0, 5, 1, 33)

WEIGHT = torch.randn(8, 8)


@torch.library.custom_op("small_sizes_test::attend", mutates_args=("out", "cache"))
def attend(query: torch.Tensor, out: torch.Tensor, cache: torch.Tensor) -> None:
    """Writes its arguments, as attention of a server does."""
    cache[: query.shape[0]] = query
    out.copy_(query + cache.sum(0))


@torch.library.custom_op("small_sizes_test::double", mutates_args=("x",))
def double(x: torch.Tensor) -> None:
    x.mul_(2)


def rows(n: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(n, 8) for _ in range(2))


def traced() -> tuple[torch.Tensor, ...]:
    """The arguments of the first call: their numbers of rows become symbols."""
    given = rows(TRACED)
    for tensor in given:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)
    return given


def attention(x, y):
    q, k = (t.view(1, -1, 2, 4).transpose(1, 2) for t in (x, y))
    return F.scaled_dot_product_attention(q, k, k + 1).transpose(1, 2).reshape(-1, 8)


def rotated(x, y):
    left, right = x.chunk(2, -1)
    return torch.cat([left * y[:, :4] - right, right * y[:, 4:] + left], -1)


def into_a_cache(x, y):
    cache = torch.zeros(64, 8)
    cache[torch.arange(x.shape[0]) * 2 % 64] = x
    return cache.sum(0) + y


def layer_of_a_server(x, y):
    out, cache = torch.empty_like(x), torch.zeros(64, 8)
    attend(torch.relu(x @ WEIGHT), out, cache)
    return out.view(-1, 2, 4) * 2 + y.view(-1, 2, 4), cache


def double_part(place):
    """A function that has an operator write the part of a new tensor at this place."""

    def function(x, y):
        result = x * 3
        double(result[place])
        return result @ WEIGHT + y

    return function


# One program serves these for all sizes.
ALIKE = {
    "linear": lambda x, y: torch.relu(x @ WEIGHT) * y,
    "norm": lambda x, y: F.layer_norm(x, (8,)) + F.rms_norm(y, (8,)),
    "softmax": lambda x, y: torch.softmax(x @ y.t(), -1),
    "joined": lambda x, y: torch.cat([x, y]).repeat(2, 1),
    "looked up": lambda x, y: F.embedding(x.argmax(1), WEIGHT) + y,
    "sums": lambda x, y: x.sum(0) + y.mean(1, keepdim=True),
    "expanded": lambda x, y: torch.where(x > 0, y[:, :1].expand(-1, 8), y),
    "heads": lambda x, y: x.view(-1, 2, 4).transpose(0, 1).amax(-1),
    "flat": lambda x, y: (x + y).reshape(-1) + 1,
    "rotated": rotated,
    "cached": into_a_cache,
    "attention": attention,
    "server": layer_of_a_server,
    "columns written": double_part((slice(None), slice(2, 6))),
}

# These treat zero or one in another way.
OTHERWISE = {
    "squeezed": lambda x, y: x.squeeze(0) * 2 + y,
    "all squeezed": lambda x, y: (x * y).squeeze(),
    "beginning": lambda x, y: x[:2].exp() + 1,
    "first": lambda x, y: x[0] + y,
    "last": lambda x, y: y * 2 + x[-1],
    "rest": lambda x, y: x[1:].sum(0) + y,
    "largest": lambda x, y: x.amax(0) + y,
    "interpolated": lambda x, y: F.interpolate(
        x.t()[None], size=x.shape[0], mode="linear", align_corners=True
    ),
    "halves": lambda x, y: torch.cat([x[x.shape[0] // 2 :], y]),
    "deviation": lambda x, y: x.std(0) + y,
    "beginning written": double_part(slice(2)),
    "end written": double_part(slice(-1, None)),
    "convolved": lambda x, y: F.conv1d(x.t()[None], torch.ones(8, 8, 1)),
}


def without_guards(function, **options):
    dropped = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    return torch.compile(
        function, backend=anabranch.anabranch, options=dropped | options
    )


def check_all(compiled, function, after=lambda: None) -> None:
    check(compiled, function, traced())
    for size in CALLED:
        after()
        check(compiled, function, rows(size))


def check(compiled, function, given) -> None:
    """The call equals eager, or raises an error where eager does."""
    try:
        expected = function(*(argument.clone() for argument in given))
    except (RuntimeError, IndexError):
        with pytest.raises(Exception):  # noqa: B017 - its kind may differ
            compiled(*given)
        return
    found = compiled(*given)
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ALIKE)
def test_one_program_serves_all_sizes(name) -> None:
    check_all(without_guards(ALIKE[name]), ALIKE[name])
    assert anabranch.counters.graphs == 1


@pytest.mark.parametrize("name", OTHERWISE)
def test_small_sizes_get_a_program_of_their_own(name) -> None:
    check_all(without_guards(OTHERWISE[name]), OTHERWISE[name])
    assert anabranch.counters.graphs > 1 or anabranch.counters.eager_graphs


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(8, 8)

    def forward(self, x, y):
        return self.body(x[1:]).sum(0) + y


@pytest.mark.parametrize("options", [{"freeze": True}, {}], ids=str)
def test_weights_reach_the_second_program(options) -> None:
    module = Scaled().eval()
    compiled = without_guards(module, **options)
    with torch.no_grad():
        check_all(compiled, module, lambda: module.body.weight.add_(1))


def updated(x, y):
    x.add_(y[:1])
    return x * 2


def test_a_second_program_updates_its_argument() -> None:
    compiled = without_guards(updated)
    for x, y in (traced(), *map(rows, (1, 2, 1))):
        other = x.clone()
        torch.testing.assert_close(compiled(x, y), updated(other, y))
        torch.testing.assert_close(x, other)


def test_unbacked_sizes_serve_zero_and_one() -> None:
    function = ALIKE["linear"]
    given = rows(TRACED)
    for tensor in given:
        mark_unbacked(tensor, 0)
    compiled = without_guards(function)
    check(compiled, function, given)
    for size in CALLED:
        check(compiled, function, rows(size))


def test_oblivious_sizes_serve_zero_and_one() -> None:
    function = ALIKE["norm"]
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        check_all(without_guards(function), function)


def test_a_marked_range_is_kept() -> None:
    given = rows(TRACED)
    for tensor in given:
        torch._dynamo.mark_dynamic(tensor, 0, min=4, max=16)
    compiled = without_guards(ALIKE["linear"])
    check(compiled, ALIKE["linear"], given)
    check(compiled, ALIKE["linear"], rows(4))
    for size, text in ((3, "4 or more"), (17, "16 or less")):
        with pytest.raises((RuntimeError, ValueError), match=text):
            compiled(*rows(size))
