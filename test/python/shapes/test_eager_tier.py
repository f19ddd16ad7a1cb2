"""The eager tier: PyTorch runs calls that have no program yet, and a thread compiles it."""

from __future__ import annotations

import gc
import itertools
import os
import random
import subprocess
import sys
import threading
import weakref

import pytest
import torch

import anabranch
from anabranch.packages import package
from anabranch.shapes import ahead, eager_tier

LONG = 120
TIERED = {"shapes": "tiered", "eager_first": True}


@pytest.fixture(autouse=True)
def inference():
    """Computes no gradients, and leaves no compilation to the next test."""
    with torch.no_grad():
        yield
    assert ahead.finish(LONG)


@pytest.fixture
def gate(monkeypatch):
    """The thread traces a frame once this event is set. It sets `reached` when Dynamo has
    traced, and goes on once `middle` is set, which it is at first."""
    opened, reached, middle = (threading.Event() for _ in range(3))
    middle.set()
    opened.reached, opened.middle = reached, middle
    traced = eager_tier._traced

    def wait(frame, compile):
        assert opened.wait(LONG)
        return traced(frame, compile)

    build = package.build

    def build_later(*arguments):
        if threading.current_thread().name == "anabranch-beside":
            reached.set()
            assert middle.wait(LONG)
        return build(*arguments)

    monkeypatch.setattr(eager_tier, "_traced", wait)
    monkeypatch.setattr(package, "build", build_later)
    return opened


@pytest.fixture
def eager_calls(monkeypatch):
    """How often PyTorch has run a call, as a list of one number."""
    count = [0]
    in_pytorch = eager_tier.in_pytorch

    def counted():
        count[0] += 1
        return in_pytorch()

    monkeypatch.setattr(eager_tier, "in_pytorch", counted)
    return count


class Model(torch.nn.Module):
    """A model that reads values of all kinds of places."""

    shift = 1.0

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.scale = 2.0
        self.names = ["a", "b"]
        self.table = {"a": 1.0, "b": 2.0}
        self.kinds = {"a"}
        self.steps = [torch.nn.ReLU(), torch.nn.Tanh()]

    def forward(self, x):
        y = self.layer(x) * self.scale + self.shift + OFFSET
        for name in self.names:
            y = y + self.table.get(name, 0.5)
        for step in self.steps:
            y = step(y)
        if "b" in self.kinds or hasattr(self, "extra"):
            y = y * 3
        return y * 2 if x.shape[0] == 1 else y


OFFSET = 0.25


def both(compiled, model, rows, **settings):
    x = torch.randn(rows, 4)
    torch.testing.assert_close(compiled(x, **settings), model(x, **settings))


@pytest.mark.parametrize("whole", [False, True])
def test_no_call_waits_for_a_program(gate, eager_calls, whole):
    model = Model().eval()
    compiled = anabranch.compile(model, **TIERED, fullgraph=whole)
    for rows in (5, 1, 7):
        both(compiled, model, rows)
    assert eager_calls == [3] and anabranch.counters.graphs == 0
    gate.set()
    assert ahead.finish(LONG) and anabranch.counters.graphs == 1
    for rows in (6, 5, 9):
        both(compiled, model, rows)
    assert eager_calls == [3]
    both(compiled, model, 1)
    assert eager_calls == [4]
    assert ahead.finish(LONG) and anabranch.counters.graphs == 2
    for rows in (1, 8, 1):
        both(compiled, model, rows)
    assert eager_calls == [4] and anabranch.counters.graphs == 2


def test_a_call_does_not_wait_for_the_trace_that_runs(gate, eager_calls):
    """Dynamo's lock is held by the thread, for this function and for another one."""
    model, other = Model().eval(), torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    gate.middle.clear()
    gate.set()
    compiled = anabranch.compile(model, **TIERED)
    compiled_other = anabranch.compile(other, **TIERED)
    both(compiled, model, 5)
    assert gate.reached.wait(LONG)
    both(compiled, model, 6)
    both(compiled_other, other, 5)
    assert eager_calls == [3] and anabranch.counters.graphs == 0
    gate.middle.set()
    assert ahead.finish(LONG) and anabranch.counters.graphs == 1
    both(compiled, model, 7)
    both(compiled_other, other, 5)
    assert ahead.finish(LONG) and anabranch.counters.graphs == 2
    assert eager_calls == [4]


@pytest.mark.parametrize(
    "settings, calls",
    [
        ({"options": TIERED}, 1),
        ({"options": {"shapes": "tiered"}}, 0),
        ({"options": {"eager_first": True}}, 1),
        ({"options": {"shapes": "dynamic"}}, 0),
        ({}, 0),
    ],
)
def test_options_of_torch_compile(eager_calls, settings, calls):
    model = Model().eval()
    compiled = torch.compile(model, backend="anabranch", **settings)
    both(compiled, model, 5)
    assert ahead.finish(LONG) and eager_calls == [calls]
    both(compiled, model, 5)
    assert eager_calls == [calls] and anabranch.counters.graphs == 1


def change_class(model):
    type(model).shift += 1


def change_global(_):
    global OFFSET
    OFFSET += 1


CHANGES = {
    "an attribute": lambda model: setattr(model, "scale", model.scale + 1),
    "the class": change_class,
    "a global": change_global,
    "a list": lambda model: model.names.append("c"),
    "an item of a list": lambda model: model.steps.reverse(),
    "a dict": lambda model: model.table.update(a=model.table["a"] + 1),
    "a key": lambda model: model.table.update(c=9.0) or model.names.append("c"),
    "a set": lambda model: model.kinds.add("b"),
    "a new attribute": lambda model: setattr(model, "extra", 1),
    "a parameter": lambda model: setattr(model, "layer", torch.nn.Linear(4, 4)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_change_beside_the_trace_is_seen(gate, change, when, monkeypatch):
    """Eager PyTorch's results, whether the model changes before the trace, after it has
    read the model, or before the program is taken."""
    monkeypatch.setattr(Model, "shift", 1.0)
    monkeypatch.setitem(globals(), "OFFSET", 0.25)
    model = Model().eval()
    compiled = anabranch.compile(model, **TIERED)
    gate.middle.clear()
    both(compiled, model, 5)
    if when == "before":
        change(model)
    gate.set()
    if when == "within":
        assert gate.reached.wait(LONG)
        both(compiled, model, 6)
        change(model)
    gate.middle.set()
    if when == "after":
        assert ahead.finish(LONG)
        change(model)
    for _ in range(3):
        for rows in (5, 1, 6):
            both(compiled, model, rows)
        assert ahead.finish(LONG)
    change(model)
    both(compiled, model, 5)


class Counting(torch.nn.Module):
    """A model whose results depend on how often it was called."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = []

    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        return x * self.calls + len(self.seen)


def test_a_model_that_changes_itself(gate):
    model, compiled = Counting(), Counting()
    call = anabranch.compile(compiled, **TIERED)
    gate.middle.clear()
    gate.set()
    for step in range(12):
        if step == 2:
            gate.middle.set()
        x = torch.randn(step % 3 + 1, 4)
        torch.testing.assert_close(call(x), model(x))
        assert compiled.calls == model.calls and compiled.seen == model.seen
        assert step < 2 or ahead.finish(LONG)


@pytest.mark.parametrize("seed", range(4))
def test_random_calls_and_changes(seed):
    """Threads call with random sizes, and one of them changes the model between its
    calls: every result is that of the model before or after a change that came
    meanwhile."""
    pick = random.Random(seed)
    model = Model().eval()
    compiled = anabranch.compile(model, **TIERED)
    lock, wrong = threading.Lock(), []
    states = list(itertools.product((1.0, 2.0), (["a"], ["a", "c"])))

    def caller(pick, changes):
        for _ in range(60):
            x = torch.randn(pick.randint(1, 6), 4)
            with lock:
                if changes and pick.random() < 0.3:
                    model.scale, model.names[:] = pick.choice(states)
                if not torch.allclose(compiled(x), model(x), atol=1e-5):
                    wrong.append((x.shape, model.scale, model.names))

    def run(seed, changes):
        with torch.no_grad():
            caller(random.Random(seed), changes)

    threads = [
        threading.Thread(target=run, args=(pick.random(), number == 0))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert ahead.finish(LONG)
    both(compiled, model, 5)


def test_random_numbers_and_settings_go_on_beside_a_trace(gate):
    """Dynamo gives the generator and settings of the process their values from before
    the trace."""
    interval = sys.getswitchinterval()
    model = Model().eval()
    compiled = anabranch.compile(model, **TIERED)
    gate.middle.clear()
    gate.set()
    both(compiled, model, 5)
    assert gate.reached.wait(LONG)
    torch.manual_seed(3)
    wanted = [torch.rand(2) for _ in range(4)]
    torch.manual_seed(3)
    found = [torch.rand(2) for _ in range(2)]
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    try:
        gate.middle.set()
        assert ahead.finish(LONG)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
    found += [torch.rand(2) for _ in range(2)]
    assert all(map(torch.equal, found, wanted))
    assert type(torch.random.default_generator) is torch.Generator
    assert sys.getswitchinterval() == interval
    both(compiled, model, 5)


def test_errors_of_the_compilation_come_with_a_later_call():
    def cut(x):
        torch._dynamo.graph_break()
        return x + 1

    compiled = anabranch.compile(cut, **TIERED, fullgraph=True)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x + 1)
    assert ahead.finish(LONG)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(x)


def test_errors_of_the_call_are_eager_ones():
    compiled = anabranch.compile(Model().eval(), **TIERED, fullgraph=True)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        compiled(torch.randn(5, 3))
    assert ahead.finish(LONG)
    for rows in (5, 6):
        both(compiled, compiled, rows)
        assert ahead.finish(LONG)


def test_graph_breaks(eager_calls):
    def cut(x):
        y = torch.softmax(x, -1)
        torch._dynamo.graph_break()
        return y * 2

    compiled = anabranch.compile(cut, **TIERED)
    for rows in (4, 5, 6, 7, 8):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), cut(x))
        assert ahead.finish(LONG)
    assert anabranch.counters.graphs == 2 and eager_calls == [2]


def test_calls_that_write_their_arguments(gate):
    def write(x, y):
        x.add_(1)
        y[0] = 7
        return x * y

    compiled = anabranch.compile(write, **TIERED)
    for rows in (3, 3, 4, 1, 1):
        given, wanted = ([torch.ones(rows, 2), torch.zeros(rows, 2)] for _ in range(2))
        torch.testing.assert_close(compiled(*given), write(*wanted))
        torch.testing.assert_close(given, wanted)
        gate.set()
        assert ahead.finish(LONG)


@pytest.mark.parametrize("waits", ["gradients", "a mode", "gears"])
def test_what_waits_for_its_program(eager_calls, waits):
    model = Model().eval()
    compiled = anabranch.compile(model, **TIERED, fullgraph=True)
    x = torch.randn(4, 4)
    if waits == "gears":
        anabranch.set_gears(x, {0: [4, 8]})
    with torch.set_grad_enabled(waits == "gradients"):
        if waits == "a mode":
            with torch.device("cpu"):
                compiled(x)
        else:
            compiled(x)
    assert eager_calls == [0] and anabranch.counters.graphs == 1


@pytest.mark.parametrize("as_module", [False, True])
def test_nothing_of_a_dropped_model_is_kept(as_module):
    model = Model().eval()
    compiled = anabranch.compile(
        model if as_module else model.forward, **TIERED, fullgraph=True
    )
    compiled(torch.randn(5, 4))
    assert ahead.finish(LONG)
    kept = weakref.ref(model)
    del model, compiled
    torch._dynamo.reset()
    gc.collect()
    assert kept() is None


SCRIPT = """
import os, torch, anabranch
from anabranch.shapes import ahead
torch.set_grad_enabled(False)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
compiled = anabranch.compile(model, shapes="tiered", eager_first=True)
def call(rows):
    x = torch.randn(rows, 4)
    torch.testing.assert_close(compiled(x), model(x))
call(5)
"""


def run_script(rest):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + rest],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_a_process_ends_while_its_thread_traces():
    assert run_script("print('end')") == "end\n"


def test_a_forked_child_compiles_at_its_calls():
    """PyTorch's own threads are gone there."""
    rest = """
child = os.fork()
if not child:
    anabranch.counters.reset()  # the thread may have compiled before the fork
for rows in (5, 1, 6, 1):
    call(rows)
    assert ahead.finish(60)
assert anabranch.counters.graphs == 2
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("end")
"""
    assert run_script(rest) == "end\n"
