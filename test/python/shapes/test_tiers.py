"""Tiers: a thread compiles static programs while calls run the symbolic one."""

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
from anabranch import Config
from anabranch.method_cache.start import later_tiers, load
from anabranch.packages import package
from anabranch.shapes import ahead, tier_costs, tiers

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
    """The executables that the test has opened so far."""
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


def test_tiers_use_the_weights_that_are_there(loads):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)
    ).eval()
    settings = Config(shapes="tiered", freeze=True)
    compiled = anabranch.compile(model, config=settings, dynamic=True)
    with torch.no_grad():
        for rows in (40, 50, 40, 50):
            x = torch.randn(rows, 256)
            torch.testing.assert_close(compiled(x), model(x))
            assert tiers.worker().finish(LONG)
    symbolic, *members = loads
    assert symbolic.programs == 3 and len(members) == 2
    assert symbolic.cached_bytes > 2 * 4 * 256 * 512
    assert all(member.cached_bytes < 100_000 for member in members)
    symbolic.trim()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


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
    """Every result equals eager's, and no call waits for a compilation."""
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
from anabranch.shapes import tier_costs, tiers
tier_costs.Gains.pay = tier_costs.Budget.has = lambda *_: True
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


def end_in_both_processes(before, steps):
    """Runs the steps in a process and in its child, forked after `before`."""
    done = script(
        f"{before}\nchild = os.fork()\n{steps}"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    print('end')\n"
        "else:\n"
        "    os._exit(0)"
    )
    assert done.returncode == 0 and done.stdout == "end\n", done.stderr


def test_a_process_ends_while_its_thread_compiles():
    done = script("[call(rows) for rows in range(2, 30)]\nprint('end')")
    assert done.returncode == 0 and done.stdout == "end\n" and not done.stderr


def test_a_forked_child_has_a_thread_of_its_own():
    end_in_both_processes(
        "assert tiers.worker().finish(60)",
        "for rows in (7, 8, 5): call(rows)\n"
        "assert tiers.worker().finish(60)\n"
        "assert anabranch.counters.specialised == 3\n",
    )


def test_a_fallback_and_scalars(loads):
    def mixed(a, n):
        return torch.special.bessel_j0(a) * n

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
    """A model that takes another branch for one token, and counts its calls."""

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
        assert ahead.finish(LONG)
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
    """For one row the function has no graph. Compiling ahead would run its code."""
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
    assert ahead.finish(LONG)
    assert model.hits == 0


def test_the_first_call_does_not_wait_for_sizes_of_one(monkeypatch):
    times = threading.Event()
    monkeypatch.setattr(tier_costs.Rest, "is_present", lambda *_: times.is_set())
    compiled = anabranch.compile(Tokens(), shapes="tiered", fullgraph=True)
    with torch.no_grad():
        compiled(torch.randn(1, 5, 4))
        assert anabranch.counters.graphs == 1 and not ahead.finish(0.2)
        times.set()
        assert ahead.finish(LONG) and anabranch.counters.graphs == 2


def test_under_a_mode_of_torch_functions_a_size_of_one_is_compiled_by_its_call():
    compiled = anabranch.compile(Tokens(), shapes="tiered", fullgraph=True)
    with torch.no_grad(), torch.device("cpu"):
        compiled(torch.randn(1, 5, 4))
        assert ahead.finish(LONG) and anabranch.counters.graphs == 1
        compiled(torch.randn(1, 1, 4))
        assert anabranch.counters.graphs == 2


@pytest.mark.parametrize("begun", [False, True])
def test_a_request_of_one_compiles_nothing_twice(begun, monkeypatch):
    times = threading.Event()
    monkeypatch.setattr(tier_costs.Rest, "is_present", lambda *_: times.is_set())
    inside = threading.Event()
    build = package.build

    def slow(*arguments):
        if threading.current_thread().name == "anabranch-ahead":
            inside.set()
            time.sleep(0.2)
        return build(*arguments)

    monkeypatch.setattr(package, "build", slow)
    compiled = anabranch.compile(Tokens(), shapes="tiered", fullgraph=True)
    with torch.no_grad():
        compiled(torch.randn(1, 5, 4))
        if begun:
            times.set()
            assert inside.wait(LONG)
        compiled(torch.randn(1, 1, 4))
        times.set()
        assert ahead.finish(LONG) and anabranch.counters.graphs == 2
        assert inside.is_set() == begun


def test_what_is_compiled_ahead_sees_the_modes_and_settings_of_its_caller():
    def read():
        found.append(torch.is_inference_mode_enabled())
        found.append(torch.is_autocast_enabled("cpu"))
        found.append(torch.get_autocast_dtype("cpu"))
        found.append(torch._dynamo.config.recompile_limit)

    found: list[object] = []
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.float16),
        torch._dynamo.config.patch(recompile_limit=77),
    ):
        ahead.add(ahead.Job(read))
    assert ahead.finish(LONG) and found == [True, True, torch.float16, 77]


def test_a_model_that_is_gone_is_not_compiled_ahead(monkeypatch):
    times = threading.Event()
    monkeypatch.setattr(tier_costs.Rest, "is_present", lambda *_: times.is_set())
    compiled = anabranch.compile(function, shapes="tiered", fullgraph=True)
    compiled(torch.randn(5, 8), torch.randn(8, 8))
    del compiled
    times.set()
    assert ahead.finish(LONG) and anabranch.counters.graphs == 1


def test_a_child_that_is_forked_while_a_thread_compiles_can_compile():
    end_in_both_processes("", "call(1)\n")


class Layers(torch.nn.Module):
    """A model with a weight, and with a constant in its graph."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def method(self, a):
        return torch.softmax(self.fc(a) * torch.tensor([0.5]), -1)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A function that reads a method of `Layers` from the cache. It returns the module,
    the method and the executable that its calls run."""
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    opened = []
    original = load.load_executable

    def opening(*arguments):
        opened.append(original(*arguments))
        return opened[-1]

    monkeypatch.setattr(load, "load_executable", opening)

    def read(freeze):
        torch.manual_seed(0)
        module = Layers()
        for _ in range(2):
            torch._dynamo.reset()
            config = Config(shapes="tiered", freeze=freeze)
            found = anabranch.cache_compile(module.method, config=config)
            torch.testing.assert_close(
                found(torch.ones(5, 8)), module.method(torch.ones(5, 8)).detach()
            )
            assert tiers.worker().finish(LONG)
        (executable,) = opened
        return module, found, executable

    return read


def call_until_specialised(found, module, executable, rows, programs):
    """Calls until the executable has so many programs. The thread that makes them starts
    after the method was read."""
    end = time.monotonic() + LONG
    while executable.programs < programs and time.monotonic() < end:
        a = torch.randn(rows, 8)
        torch.testing.assert_close(found(a), module.method(a).detach())
        time.sleep(0.05)
    assert executable.programs == programs


@pytest.mark.parametrize("freeze", [False, True])
def test_a_function_that_was_read_gets_tiers(cached, freeze):
    module, found, executable = cached(freeze)
    call_until_specialised(found, module, executable, 5, 2)
    call_until_specialised(found, module, executable, 6, 3)
    a = torch.randn(6, 8)
    torch.testing.assert_close(found(a), module.method(a).detach())


def test_without_the_compiler_it_stays_symbolic(cached, monkeypatch):
    monkeypatch.setattr(anabranch.packages.cache, "_warned", set())
    monkeypatch.setattr(later_tiers, "has_compiler", lambda: False)
    with pytest.warns(UserWarning, match="stay in their symbolic programs"):
        module, found, executable = cached(False)
    for rows in (5, 6, 6):
        a = torch.randn(rows, 8)
        torch.testing.assert_close(found(a), module.method(a).detach())
    assert tiers.worker().finish(LONG) and executable.programs == 1
