"""Graphs that return expanded tensors of sizes that the run decides, and the like, are
cut."""

from __future__ import annotations

import pytest
import torch
from checking import assert_equal, check, clone, compiled
from torch import nn

import anabranch
from anabranch import Config


def parts() -> dict:
    """The report of a graph that was compiled in parts."""
    report = anabranch.last_report()
    assert report is not None and "outside" in report, report
    return report


def both(function, *arguments, **settings):
    """Compiles with fullgraph=True. `eager_graphs` counts graphs that PyTorch runs."""
    run = check(function, *arguments, fullgraph=True, **settings)
    return run


def chosen(x, w):
    """Has work of known sizes first, then work whose sizes depend on data. Returns a
    tensor of such a size whose elements share memory."""
    y = torch.relu(x @ w) + 1
    rows = (y.sum(1) > y.mean()).nonzero().squeeze(1)
    return torch.softmax(y[rows] @ w.t(), -1).sum(0), rows, rows.expand(2, -1)


def test_both_sides_of_an_operator_run_in_kernels():
    torch.manual_seed(0)
    both(chosen, torch.randn(40, 16), torch.randn(16, 8))
    assert parts()["parts"] == 2
    assert parts()["outside"] == ["aten.nonzero.default"]
    assert anabranch.counters.eager_graphs == 0
    assert anabranch.counters.graphs == 2 and anabranch.counters.kernels > 2


@pytest.mark.parametrize("positive", [0, 1, 2, 7])
def test_sizes_of_nothing_and_one(positive):
    def function(x, w):
        y = x[x[:, 0] > 0]
        z = torch.softmax(y @ w, -1) * 2 + y.mean(1, keepdim=True)
        return z, z.sum(0), (z > 0.5).sum(), y.shape[0]

    x = -torch.rand(7, 6)
    x[:positive, 0] = 1
    both(function, x, torch.randn(6, 6))
    assert anabranch.counters.eager_graphs == 0


def test_other_sizes_compile_nothing_new():
    run = compiled(chosen, fullgraph=True)
    w = torch.randn(16, 8)
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(40, 16)
        assert_equal(run(x, w), chosen(x, w), atol=1e-5, rtol=1e-5)
    assert anabranch.counters.graphs == 2


def test_a_number_of_the_data():
    def function(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 8)
        y = torch.zeros(k, 4) + x
        return torch.cat([y, y * 2]) @ x.view(4, 1), k + 1

    for n in (0, 1, 5):
        both(function, torch.randn(4), torch.tensor(n))
    assert anabranch.counters.eager_graphs == 0


def test_a_factor_of_the_data():
    def function(x, factor):
        return torch.exp(x @ x) * factor.item() + 1

    both(function, torch.randn(4, 4), torch.tensor(0.25))
    assert anabranch.counters.eager_graphs == 0


def test_what_the_user_checks_is_checked_first():
    def function(x, n):
        k = n.item()
        torch._check(k <= 3)
        return torch.exp(x)[:2] * k

    run = compiled(function, fullgraph=True)
    x = torch.randn(4)
    torch.testing.assert_close(run(x, torch.tensor(3)), torch.exp(x)[:2] * 3)
    with pytest.raises(RuntimeError, match="3"):
        run(x, torch.tensor(4))
    torch.testing.assert_close(run(x, torch.tensor(2)), torch.exp(x)[:2] * 2)


def test_a_check_of_values_keeps_no_kernel_away():
    def function(x):
        torch._assert_async((x > 0).all(), "all must be positive")
        return torch.exp(x) * 2

    run = both(function, torch.rand(4) + 1)
    assert anabranch.counters.eager_graphs == 0
    assert anabranch.counters.kernels > 0
    assert anabranch.counters.fallback_calls == 1  # the graph contains the check
    with pytest.raises(RuntimeError, match="all must be positive"):
        run(-torch.ones(4))


def test_symbols_beside_the_datas_sizes():
    run = compiled(chosen, fullgraph=True, dynamic=True)
    for rows in (12, 30, 5):
        torch.manual_seed(rows)
        x, w = torch.randn(rows, 16), torch.randn(16, 8)
        assert_equal(run(x, w), chosen(x, w), atol=1e-5, rtol=1e-5)
    assert anabranch.counters.graphs == 2 and anabranch.counters.eager_graphs == 0


class Experts(nn.Module):
    """A mixture that sends each row to one expert."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            for _ in range(3)
        )

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(choice == number)
            result = result.index_add(0, rows, expert(x[rows]))
        return result


@pytest.mark.parametrize("freeze", [False, True])
def test_experts(freeze):
    torch.manual_seed(0)
    model = Experts().eval()
    run = anabranch.compile(model, config=Config(freeze=freeze), fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(50, 16)
            assert_equal(run(x), model(x), atol=1e-5, rtol=1e-5)
    report = anabranch.last_report()
    assert report["parts"] == 1 and anabranch.counters.eager_graphs == 0
    assert not report["fallbacks"]


def test_state_that_is_written():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            kept = x[x[:, 0] > 0]
            self.seen.add_(kept.exp().sum(0))
            return kept * self.seen

    both(Model(), torch.randn(9, 4), calls=3)


def test_views_of_arguments_and_of_results():
    def function(x):
        y = x * 2
        view = y.t()[1:]
        rows = (y > 0).any(1).nonzero()
        return view, x[1:], y, rows + view.shape[1], (y[rows[:, 0]] * 3).t()

    both(function, torch.randn(5, 4))


def test_lists_cross_no_border():
    def function(x):
        first, second = torch.split(x.exp(), [2, 3])
        rows = (first > 1).nonzero()
        return second * 2 + rows.shape[0], first.sum(), torch.unique(rows)

    both(function, torch.randn(5, 4))


def test_random_numbers_keep_their_order():
    def function(x):
        a = torch.rand(3)
        rows = (x > 0).nonzero()
        b = torch.rand(3) + rows.sum()
        return a, b, torch.rand(2)

    run, x = compiled(function, fullgraph=True), torch.randn(6)
    torch.manual_seed(1)
    found = run(x)
    torch.manual_seed(1)
    assert_equal(found, function(x))


def test_a_branch_without_a_description():
    def rounded(y):
        return y.to(torch.float8_e8m0fnu).to(y.dtype) + 1

    def function(x, w):
        y = torch.relu(x @ w)
        z = torch.cond(y.sum() > 0, rounded, lambda y: y - 1, (y,))
        return torch.softmax(z @ w, -1)

    both(function, torch.randn(4, 4), torch.randn(4, 4))
    assert parts()["parts"] == 2 and anabranch.counters.eager_graphs == 0


def test_gradients():
    def function(x, w):
        kept = x[x[:, 0] > 0]
        return (torch.tanh(kept @ w)).sum()

    x, w = torch.randn(8, 4), torch.randn(4, 4)
    mine, theirs = (clone((x, w)) for _ in range(2))
    for value in (*mine, *theirs):
        value.requires_grad_()
    compiled(function, fullgraph=True)(*mine).backward()
    function(*theirs).backward()
    assert_equal([v.grad for v in mine], [v.grad for v in theirs])


def test_nothing_to_gain():
    both(lambda x: x.nonzero().expand(2, -1, -1), torch.tensor([0, 1, 1]))
    assert "eager" in anabranch.last_report()


@pytest.mark.parametrize("whole", [False, True])
def test_a_strict_scope_is_not_cut(whole):
    """A graph with a strict scope is not cut, and PyTorch does not run it either."""

    def model(x):
        with anabranch.super_kernel("sp", OPTIONS):
            y = x if whole else x.exp().softmax(-1)
            places = torch.nonzero(y > 0.5)
            twice = places.expand(2, -1, -1)
            return (twice,) if whole else (twice, (y * 2).softmax(-1))

    x = torch.rand(4, 5)
    OPTIONS = "strict-scope-check=abort"
    with pytest.raises(
        anabranch.CompileError, match="(?s)abort.*'sp'.*test_partition.py"
    ):
        compiled(model, fullgraph=True)(x)
    torch._dynamo.reset()
    OPTIONS = "strict-scope-check=bypass"
    with pytest.warns(UserWarning, match="'sp'. is not one launch: the graph is cut"):
        found = compiled(model, fullgraph=True)(x)
    torch.testing.assert_close(found, model(x))
    torch._dynamo.reset()
    OPTIONS = ""
    torch.testing.assert_close(compiled(model, fullgraph=True)(x), model(x))
