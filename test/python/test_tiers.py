"""Static programs compiled behind the calls."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch

import anabranch
from anabranch import Config, package, tiers

LONG = 120


def function(a, b):
    return torch.softmax(a @ b, -1), a.sum(0)


def tiered(**settings):
    return anabranch.compile(function, config=Config(shapes="tiered", **settings))


def call(compiled, rows):
    a, b = torch.randn(rows, 8), torch.randn(8, 8)
    torch.testing.assert_close(compiled(a, b), function(a, b))


@pytest.fixture
def loads(monkeypatch):
    """The executables that were opened since the test began."""
    made = []
    original = package.load

    def load(*arguments, **settings):
        made.append(original(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(package, "load", load)
    return made


def test_a_shape_that_comes_gets_its_program(loads):
    compiled = tiered()
    for rows in (5, 6, 5, 7):
        call(compiled, rows)
    assert tiers.worker().finish(LONG)
    assert anabranch.counters.specialised == 3 and anabranch.counters.graphs == 1
    assert loads[0].programs == 4
    uses = [executable.last_use for executable in loads[1:]]
    for rows in (5, 6, 7):
        call(compiled, rows)
    assert all(e.last_use > use for e, use in zip(loads[1:], uses))
    assert tiers.worker().finish(LONG) and len(loads) == 4


def test_the_least_recently_used_makes_room(loads):
    compiled = tiered(tier_limit=2)
    for rows in (5, 6):
        call(compiled, rows)
        assert tiers.worker().finish(LONG)
    call(compiled, 5)
    for _ in range(tiers.USES_WHEN_FULL):
        call(compiled, 7)
    assert tiers.worker().finish(LONG)
    assert anabranch.counters.specialised == 3 and loads[0].programs == 3
    before = loads[1].last_use, loads[2].last_use
    call(compiled, 5)
    call(compiled, 6)
    assert loads[1].last_use > before[0] and loads[2].last_use == before[1]


def test_errors_of_the_thread_stay_there(monkeypatch, capfd):
    def fail(*_):
        raise RuntimeError("no room in the test")

    monkeypatch.setattr(package, "specialise", fail)
    compiled = tiered(explain=True)
    for _ in range(3):
        call(compiled, 5)
        assert tiers.worker().finish(LONG)
    assert capfd.readouterr().err.count("no room in the test") == 1
    assert anabranch.counters.specialised == 0


def test_nothing_of_a_dropped_graph_is_kept(loads):
    compiled = tiered()
    call(compiled, 5)
    call(compiled, 6)
    assert tiers.worker().finish(LONG)
    kept = [weakref.ref(executable) for executable in loads]
    loads.clear()
    del compiled
    torch._dynamo.reset()
    deadline = time.monotonic() + 20
    while any(ref() is not None for ref in kept) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert all(ref() is None for ref in kept)


def test_calls_from_threads_while_programs_come_and_go():
    """Every result is eager's, and no call waits for a compilation."""
    compiled = tiered(tier_limit=3)
    call(compiled, 4)
    wrong, slowest = [], [0.0]
    b = torch.randn(8, 8)

    def caller(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(150):
            rows = int(torch.randint(2, 9, (), generator=generator))
            a = torch.randn(rows, 8, generator=generator)
            start = time.perf_counter()
            results = compiled(a, b)
            slowest[0] = max(slowest[0], time.perf_counter() - start)
            for result, expected in zip(results, function(a, b)):
                if not torch.allclose(result, expected, atol=1e-5):
                    wrong.append(rows)

    with torch.no_grad():
        threads = [threading.Thread(target=caller, args=(s,)) for s in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong and slowest[0] < 2
    assert tiers.worker().finish(LONG) and anabranch.counters.specialised >= 3


SCRIPT = """
import os, sys, torch, anabranch
from anabranch import tiers
f = lambda a: torch.exp(a).sum(0)
c = anabranch.compile(f, config=anabranch.Config(shapes="tiered"), fullgraph=True)
def call(rows):
    a = torch.randn(rows, 3)
    torch.testing.assert_close(c(a), f(a))
call(5)
{rest}
"""


def script(rest):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(rest=rest)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


def test_a_process_ends_while_its_thread_compiles():
    done = script("[call(rows) for rows in range(2, 30)]\nprint('end')")
    assert done.returncode == 0 and done.stdout == "end\n" and not done.stderr


def test_a_forked_child_has_a_thread_of_its_own():
    done = script(
        "assert tiers.worker().finish(60)\n"
        "child = os.fork()\n"
        "for rows in (7, 8, 5): call(rows)\n"
        "assert tiers.worker().finish(60)\n"
        "assert anabranch.counters.specialised == 3\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    print('end')\n"
        "else:\n"
        "    os._exit(0)"
    )
    assert done.returncode == 0 and done.stdout == "end\n", done.stderr


def test_a_fallback_and_scalars(loads):
    def mixed(a, n):
        return torch.sort(a, 0).values * n

    compiled = anabranch.compile(mixed, config=Config(shapes="tiered"))
    for rows, n in ((5, 3), (6, 4), (5, 3), (6, 3)):
        a = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(a, n), mixed(a, n))
        assert tiers.worker().finish(LONG)
    assert loads[0].programs == 4


@pytest.mark.parametrize("name", ["tier_limit", "tier_bytes"])
def test_bad_limits(name):
    with pytest.raises(ValueError, match=name):
        Config(**{name: 0})
    with pytest.raises(TypeError, match=name):
        Config(**{name: 1.5})


class Tokens(torch.nn.Module):
    """Takes another branch for one token, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        y = self.layer(x)
        return y * 2 if x.shape[1] == 1 else torch.softmax(y, -1)


@pytest.mark.parametrize("as_function", [False, True])
def test_a_size_of_one_waits_for_no_compilation(as_function, monkeypatch):
    torch._dynamo.reset()
    model = Tokens().eval()
    compiled = anabranch.compile(
        model.forward if as_function else model,
        config=Config(shapes="tiered"),
        fullgraph=True,
    )
    with torch.no_grad():
        compiled(torch.randn(1, 5, 4))
        assert model.calls == 1, "compiling ahead ran the model"
        assert anabranch.counters.graphs == 2
        assert tiers.worker().finish(LONG)

        def refuse(*_, **__):
            raise AssertionError("compiled at a call")

        monkeypatch.setattr(package, "build", refuse)
        for count, tokens in enumerate((1, 7, 1), 2):
            x = torch.randn(1, tokens, 4)
            found = compiled(x)
            assert model.calls == count
            torch.testing.assert_close(found, model(x))
            model.calls.sub_(1)
        assert tiers.worker().finish(LONG)


def test_where_nothing_is_compiled_nothing_runs_ahead():
    """For one row the function has no graph: its code would run."""
    torch._dynamo.reset()

    class Odd(torch.nn.Module):
        hits = 0

        def forward(self, x):
            if x.shape[0] == 1:
                self.hits += 1
                return x
            return x + 1

    model = Odd()
    compiled = anabranch.compile(model, config=Config(shapes="tiered"), fullgraph=True)
    x = torch.randn(5, 3)
    torch.testing.assert_close(compiled(x), x + 1)
    assert model.hits == 0
