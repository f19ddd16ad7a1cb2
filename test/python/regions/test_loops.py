"""`while_loop`, `scan`, `map` and `associative_scan`: loops of the program."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any

import pytest
import torch
from checking import assert_equal, clone, compiled
from torch import nn
from torch._higher_order_ops import scan as torch_scan
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.while_loop import while_loop

import anabranch


def assert_whole() -> None:
    """The last graph became one program, and PyTorch ran none."""
    report = anabranch.last_report()
    assert report is not None and report["parts"] == 1, report
    assert anabranch.counters.eager_graphs == 0


def compare(function: Any, *calls: tuple, dynamic: bool = False, **settings) -> Any:
    run = compiled(function, fullgraph=True, **settings)
    if dynamic:
        torch._dynamo.mark_dynamic(calls[0][0], 0)
    with torch.no_grad():
        for arguments in calls:
            assert_equal(run(*clone(arguments)), function(*clone(arguments)))
    assert_whole()
    return run


def trips(count: int) -> torch.Tensor:
    return torch.tensor(count)


def powers(n, x, w):
    def body(i, x):
        return i + 1, torch.tanh(x @ w) + x

    i, y = while_loop(lambda i, x: i < n, body, (torch.zeros_like(n), x))
    return y * 2, i


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_while_loop(dynamic, freeze):
    x, w = (
        torch.randn(3, 4, dtype=torch.float64),
        torch.randn(4, 4, dtype=torch.float64),
    )
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    calls = [(trips(n), x, w) for n in (3, 0, 1, 2, 8)]
    compare(powers, *calls, options={"freeze": freeze})


def test_condition_of_values():
    """Newton's method, until it has converged."""

    def function(a):
        x = while_loop(
            lambda x: ((x * x - a).abs() > 1e-9).any(),
            lambda x: ((x + a / x) / 2,),
            (a + 1,),
        )
        return x[0]

    a = torch.rand(5, dtype=torch.float64) + 0.1
    run = compare(function, (a,), (a * 100,))
    torch.testing.assert_close(run(a), a.sqrt())


def test_values_that_change_places():
    """A body that returns what it got, and the first values are one tensor."""

    def function(n, x):
        def body(i, a, b):
            return i + 1, b.clone(), a + 1

        return while_loop(lambda i, a, b: i < n, body, (n * 0, x, x + 0))

    compare(function, *((trips(n), torch.randn(3)) for n in range(5)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(dynamic, reverse):
    def function(x, w, c):
        def step(c, x):
            c = torch.sigmoid(x @ w) * c + x
            return c, c * 2 + w[0]

        return torch_scan(step, c, x, dim=0, reverse=reverse)

    w, c = torch.randn(4, 4), torch.randn(2, 4)
    run = compare(function, (torch.randn(6, 2, 4), w, c), dynamic=dynamic)
    if dynamic:
        for n in (2, 9):
            x = torch.randn(n, 2, 4)
            with torch.no_grad():
                assert_equal(run(x, w, c), function(x, w, c))


@pytest.mark.parametrize("dim", [0, 1])
def test_scan_of_several_tensors_of_odd_sizes(dim):
    """Slices of 3 and of 5 elements: their memory is aligned to nothing."""

    def function(xs, ys, c):
        def step(c, both):
            x, y = both
            return c + x.sum() + y[:1], (x * c, y.to(torch.bfloat16) + 1, x > 0)

        return torch_scan(step, c, (xs, ys), dim=dim)

    shapes = ((7, 3), (7, 5)) if dim == 0 else ((3, 7), (5, 7))
    compare(function, (*(torch.randn(shape) for shape in shapes), torch.zeros(1)))


def test_map():
    def function(xs, w):
        return torch_map(lambda x, w: torch.softmax(x @ w, -1), xs, w)

    compare(function, (torch.randn(5, 3, 4), torch.randn(4, 4)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_associative_scan(dynamic):
    def function(x):
        def combine(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        pair = (torch.sigmoid(x), x)
        return associative_scan(combine, pair, dim=0, combine_mode="generic")

    calls = [(torch.randn(9, 3),)] + [(torch.randn(n, 3),) for n in (4, 5)] * dynamic
    compare(function, *calls, dynamic=dynamic)


COMBINE = {
    "sum": (lambda a, b: a + b, 1),
    "largest": (torch.maximum, 1),
    "recurrence": (lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), 2),
    "products": (lambda a, b: a @ b, 1),
}


def test_associative_scans_of_any_length():
    """The log-step form of a scan equals a loop from the left, or from the right."""
    dice = random.Random(5)
    for name, (combine, count) in COMBINE.items():
        reverse, dim = dice.random() < 0.5, dice.choice((0, 1))
        shape = [3, 3, 3]
        shape[dim] = dice.choice((1, 2, 7, 16, 33))
        if name == "products":
            dim, shape = 0, [shape[dim], 3, 3]
        given = tuple(torch.rand(shape) for _ in range(count))

        def function(*xs, combine=combine, dim=dim, reverse=reverse):
            tree = xs if len(xs) > 1 else xs[0]
            return associative_scan(
                combine, tree, dim=dim, reverse=reverse, combine_mode="generic"
            )

        with torch.no_grad():
            got = compiled(function, fullgraph=True)(*given)
        slices = [x.double().movedim(dim, 0) for x in given]
        steps = [tuple(part) for part in zip(*slices)]
        found = steps[:: -1 if reverse else 1]
        for at in range(1, len(found)):
            left, right = found[at - 1], found[at]
            made = combine(left, right) if count > 1 else (combine(left[0], right[0]),)
            found[at] = made
        for number, result in enumerate(got if count > 1 else (got,)):
            column = [step[number] for step in found][:: -1 if reverse else 1]
            wanted = torch.stack(column).movedim(0, dim).float()
            torch.testing.assert_close(result, wanted, msg=name)


def test_loops_and_branches_in_each_other():
    def function(n, xs, w):
        def step(c, x):
            def grow(c):
                return while_loop(
                    lambda i, c: i < n, lambda i, c: (i + 1, c * 1.5), (n * 0, c)
                )[1]

            c = torch.cond(c.sum() > 0, grow, lambda c: -c + 1, (c,))
            return c + x @ w, c

        return torch_scan(step, xs[0] * 1, xs, dim=0)

    w = torch.randn(4, 4)
    compare(function, *((trips(n), torch.randn(5, 4), w) for n in (0, 2, 3)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.Linear(16, 8)

    def forward(self, xs):
        def step(h, x):
            h = torch.tanh(self.cell(torch.cat([x, h], -1)))
            return h, h * 1

        return torch_scan(step, xs[0] * 0, xs, dim=0)[1]


def test_export(tmp_path):
    model = Recurrent().eval()
    xs = torch.randn(6, 2, 8)
    path = tmp_path / "rnn.anb"
    anabranch.export(model, path, (xs,))
    loaded = anabranch.load(path)
    with torch.no_grad():
        assert_equal(loaded(xs), model(xs))


def test_frozen_weights_are_packed_once():
    model = Recurrent().eval()
    compare(model, (torch.randn(6, 2, 8),), options={"freeze": True})


COUNTED = {"steps": 0}


@torch.library.custom_op("looptest::count", mutates_args=())
def count(x: torch.Tensor) -> torch.Tensor:
    COUNTED["steps"] += 1
    return x + 1


@count.register_fake
def _(x):
    return torch.empty_like(x)


def test_operators_of_users_run_in_each_trip():
    def function(n, x):
        body = lambda i, x: (i + 1, count(x) * 2)
        return while_loop(lambda i, x: i < n, body, (n * 0, x))[1]

    run = compiled(function, fullgraph=True)
    x = torch.randn(3)
    with torch.no_grad():
        wanted = function(trips(4), x)
        run(trips(1), x)
        COUNTED["steps"] = 0
        assert_equal(run(trips(4), x), wanted)
    assert COUNTED["steps"] == 4
    assert_whole()


def seconds_to_interrupt(run, argument) -> float:
    """How long a call runs on after Ctrl-C."""
    told: list[float] = []

    def interrupt() -> None:
        time.sleep(0.1)
        told.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # A background job starts with SIGINT ignored; Python then installs no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run(argument)
        late = time.perf_counter() - told[0]
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return late


def test_an_endless_loop_can_be_interrupted():
    def function(x):
        return while_loop(lambda x: x.sum() < 1, lambda x: (x * 1,), (x,))[0]

    run = compiled(function, fullgraph=True)
    with torch.no_grad():
        assert_equal(run(torch.ones(3)), torch.ones(3))
        # A busy machine may keep the process from its CPU now and then.
        tries = (seconds_to_interrupt(run, torch.zeros(3)) for _ in range(10))
        assert any(late < 0.1 for late in tries)
        assert_equal(run(torch.ones(3)), torch.ones(3))


def random_step(rng: random.Random, depth: int) -> Any:
    """A function of two tensors that may hold loops and branches."""
    steps = [
        (rng.randrange(7), rng.randrange(9), rng.randrange(9))
        for _ in range(rng.randint(1, 4))
    ]
    inner = [random_step(rng, depth - 1) for _ in range(2 if depth else 0)]

    def repeat(count, function, left, right):
        def body(i, a, b):
            a, b = function(a, b)
            return i + 1, torch.tanh(a), b * 0.5

        zero = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, a, b: i < count, body, (zero, left, right))[1:]

    def scanned(function, first, xs):
        def step(c, x):
            return function(c, x.unsqueeze(0) + c)

        return torch_scan(step, first, xs, dim=0)[0]

    def step(x, y):
        values = [x, y]
        for kind, a, b in steps:
            left, right = values[a % len(values)], values[b % len(values)]
            if kind == 0:
                values.append(torch.relu(left) - right)
            elif kind == 1:
                values.append(torch.sin(left) * right)
            elif kind == 2:
                values.append(torch.softmax(left @ right.t(), -1) @ right)
            elif not inner:
                values.append(left.flip(0) + 0.5)
            elif kind == 3:
                values.extend(torch.cond(left.mean() > 0.25, *inner, (left, right)))
            elif kind == 4:
                values.extend(repeat(b % 4, inner[a % 2], left * 1, right * 1))
            else:
                values.append(scanned(inner[b % 2], left * 1, right))
        return values[-1] * 0.5, values[len(values) // 2] + 1

    return step


@pytest.mark.parametrize("seed", range(16))
def test_random_nests(seed):
    """Seeds from 8 have nests in nests. Wide tensors are work for two threads."""
    step = random_step(random.Random(seed), depth=1 + seed // 8)
    columns = 4096 if seed % 4 > 1 else 3
    run = compiled(step, fullgraph=True)
    for call in range(3):
        torch.manual_seed(seed * 10 + call)
        rows = 4 + call if seed % 2 else 4
        x = torch.randn(rows, columns, dtype=torch.float64)
        y = torch.randn(rows, columns, dtype=torch.float64)
        ours = clone((x, y))
        if seed % 2 and call == 0:
            for tensor in ours:
                torch._dynamo.mark_dynamic(tensor, 0)
        with torch.no_grad():
            assert_equal(run(*ours), step(x, y))
    assert anabranch.counters.eager_graphs == 0
