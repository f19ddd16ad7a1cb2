"""Streams that a model marks: order, equality with eager, errors."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.fx.traceback
from torch.fx.node import has_side_effect

import anabranch


def compiled(function, **options):
    options = {"streams": "marked", **options}
    dynamic = options.pop("dynamic", None)
    return torch.compile(
        function,
        backend=anabranch.anabranch,
        options=options,
        fullgraph=True,
        dynamic=dynamic,
    )


@pytest.fixture
def program(tmp_path):
    """Compiles and runs a function. Returns its streams as lists of commands."""

    def run(function, *inputs, **options):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.manual_seed(1)
            expected = function(*inputs)
            torch.manual_seed(1)
            actual = compiled(function, dump=str(tmp_path), **options)(*inputs)
        torch.testing.assert_close(actual, expected)
        text = (tmp_path / "05-memory.mlir").read_text()
        return streams_of(text)

    return run


def streams_of(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, body in re.findall(
        r'anabranch\.stream "([^"]*)" \{\n(.*?)\n    \}', text, re.DOTALL
    ):
        found[name] = re.findall(r"anabranch\.(launch @\w+|record \d+|wait \d+)", body)
    return found


def kinds(commands: list[str]) -> list[str]:
    return [command.split()[0] for command in commands]


def seed_example(in1, in2, in3, in4):
    add_result = torch.add(in1, in2)
    with anabranch.stream("1"):
        anabranch.wait(in4, add_result)
        mm_result = torch.mm(in3, in4)
    mm1 = torch.mm(in3, in4)
    with anabranch.stream("2"):
        anabranch.wait(in4, mm_result)
        add2 = torch.add(in3, in4)
    return add_result, mm_result, mm1, add2


def test_tags_become_streams(program):
    inputs = [torch.randn(100, 100, dtype=torch.float16) for _ in range(4)]
    streams = program(seed_example, *inputs)
    assert kinds(streams["main"]) == ["launch", "record", "launch"]
    # The wait holds although its result is unused. Equal products are not merged.
    assert kinds(streams["1"]) == ["wait", "launch", "record"]
    assert kinds(streams["2"]) == ["wait", "launch"]
    assert streams["1"][0] == streams["main"][1].replace("record", "wait")
    assert streams["2"][0] == streams["1"][2].replace("record", "wait")


def test_no_scope_is_one_stream(program):
    streams = program(lambda x: (x @ x).relu() @ x, torch.randn(32, 32))
    assert list(streams) == ["main"]
    assert set(kinds(streams["main"])) == {"launch"}


def test_off_is_one_stream_that_fuses(program):
    def model(x):
        y = x + 1
        with anabranch.stream("s"):
            z = y * 2
        return z - 3

    x = torch.randn(8, 8)
    assert len(program(model, x)) == 2
    assert [len(c) for c in program(model, x, streams="off").values()] == [1]


def test_innermost_scope_decides(program):
    def model(x):
        with anabranch.stream("outer"):
            a = x @ x
            with anabranch.stream("inner"):
                b = x.T @ x
            c = a @ a
        return b + c

    streams = program(model, torch.randn(16, 16))
    assert kinds(streams["outer"]).count("launch") == 2
    assert kinds(streams["inner"]).count("launch") == 1
    assert kinds(streams["main"]).count("launch") == 1


def test_scopes_in_the_users_own_managers_and_loops(program):
    class side:
        def __init__(self, index):
            self.scope = anabranch.stream(f"tower{index}")

        def __enter__(self):
            self.scope.__enter__()

        def __exit__(self, *error):
            self.scope.__exit__(*error)

    def tower(x, index):
        with anabranch.stream(f"tower{index}"):
            for _ in range(3):
                x = (x @ x).tanh()
            return x

    def model(x):
        return sum(tower(x + i, i) for i in range(4))

    streams = program(model, torch.randn(16, 16))
    assert {f"tower{i}" for i in range(4)} <= set(streams)


def test_limit_cores(program, tmp_path):
    def model(x):
        with anabranch.limit_cores(1):
            y = x @ x
        return y + 1

    program(model, torch.randn(64, 64))
    assert "cores = 1" in (tmp_path / "05-memory.mlir").read_text()


def test_a_used_wait_holds_readers_on_other_streams(program):
    def model(x):
        with anabranch.stream("a"):
            slow = x @ x
        with anabranch.stream("b"):
            y = anabranch.wait(x, slow)
        return (y * 2).sin(), slow

    streams = program(model, torch.randn(16, 16))
    assert kinds(streams["main"]) == ["wait", "launch"]


def test_events(program):
    def model(x):
        with anabranch.stream("a"):
            y = x @ x
            event = anabranch.record()
        z = x.cos() + 1
        with anabranch.stream("b"):
            anabranch.wait_event(event)
            w = x.sin()
        return y, z, w

    streams = program(model, torch.randn(16, 16))
    assert kinds(streams["a"]) == ["launch", "record"]
    assert kinds(streams["b"]) == ["wait", "launch"]
    assert kinds(streams["main"]) == ["launch"]


def test_events_between_graphs():
    def first(x):
        y = x @ x
        anabranch.record("test_events_between_graphs")
        return y

    def second(x):
        anabranch.wait_event("test_events_between_graphs")
        return x + 1

    x = torch.randn(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(first)(x), x @ x)
        torch.testing.assert_close(compiled(second)(x), x + 1)


def test_symbolic_sizes(program):
    def model(x, y):
        with anabranch.stream("s"):
            a = torch.softmax(x @ y, -1)
        b = (x * 2).sum(0)
        return a, torch.cat([b, b])

    torch._dynamo.reset()
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        for n in (3, 17, 64, 5):
            x, y = torch.randn(n, n + 1), torch.randn(n + 1, 7)
            torch.testing.assert_close(run(x, y), model(x, y))


def test_eager_scopes_do_nothing():
    x = torch.ones(2)
    with anabranch.stream("s"), anabranch.limit_cores(2):
        assert anabranch.wait(x, x) is x
        anabranch.wait_event(anabranch.record())


# Mistakes


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: anabranch.stream(1).__enter__(), TypeError, "string as its tag"),
        (lambda: anabranch.stream("s", 101).__enter__(), ValueError, "-100 to"),
        (lambda: anabranch.stream("s", "1").__enter__(), TypeError, "must be an int"),
        (lambda: anabranch.limit_cores(0).__enter__(), ValueError, "at least one"),
        (lambda: anabranch.limit_cores(1.5).__enter__(), TypeError, "int"),
        (lambda: anabranch.wait(1, torch.ones(1)), TypeError, "tensor must be"),
        (lambda: anabranch.wait_event(3), TypeError, "event or its tag"),
        (lambda: anabranch.wait_event("nobody"), ValueError, "never recorded"),
        (lambda: anabranch.record(3), TypeError, "string as its tag"),
    ],
)
def test_arguments(use, error, message):
    with pytest.raises(error, match=message):
        use()


def refused(function, *inputs, **options) -> str:
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(anabranch.CompileError) as error:
        compiled(function, **options)(*inputs)
    assert Path(__file__).name in str(error.value), "names the user's line"
    return str(error.value)


def test_two_priorities_of_one_stream():
    def model(x):
        with anabranch.stream("s", 1):
            y = x + 1
        with anabranch.stream("s", 2):
            return y * 2

    assert "priority" in refused(model, torch.ones(3))


def test_a_wait_for_what_no_graph_computes():
    def model(x, y):
        anabranch.wait(x, y)
        return x + 1

    message = refused(model, torch.ones(3), torch.ones(3))
    assert "which this graph does not compute" in message


def test_an_event_that_nobody_records():
    def model(x):
        anabranch.wait_event("test_an_event_that_nobody_records")
        return x + 1

    assert "never recorded" in refused(model, torch.ones(3))


def test_single_stream_and_a_scope():
    def model(x):
        with anabranch.stream("s"):
            return x + 1

    message = refused(model, torch.ones(3), single_stream=True)
    assert "single_stream" in message


def test_single_stream_and_a_scope_is_a_value_error():
    def model(x):
        with anabranch.stream("s"):
            return x + 1

    torch._dynamo.reset()
    with pytest.raises(ValueError, match="single_stream"):
        compiled(model, single_stream=True)(torch.ones(3))


def test_a_hazard_names_both_lines():
    def model(cache, x):
        y = (cache @ x).relu()  # reads
        with anabranch.stream("update"):
            cache.add_(1)  # writes
        return y

    inputs = torch.randn(8, 8), torch.randn(8, 8)
    message = refused(model, *inputs)
    line = model.__code__.co_firstlineno
    assert f":{line + 1}" in message and f":{line + 3}" in message
    assert "anabranch.wait" in message

    torch._dynamo.reset()
    cache = inputs[0].clone()
    with torch.no_grad():
        result = compiled(model, hazards="wait")(cache, inputs[1])
    torch.testing.assert_close(result, (inputs[0] @ inputs[1]).relu())
    torch.testing.assert_close(cache, inputs[0] + 1)


def test_a_hazard_that_a_wait_settles():
    def model(cache, x):
        y = (cache @ x).relu()
        with anabranch.stream("update"):
            anabranch.wait(cache, y)
            cache.add_(1)
        return y

    cache, x = torch.randn(8, 8), torch.randn(8, 8)
    expected = (cache @ x).relu()
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(cache, x), expected)


def test_an_error_on_one_stream_reaches_the_caller():
    def model(x, index):
        with anabranch.stream("s"):
            bad = x[index]
        return bad, (x @ x).tanh()

    x = torch.randn(32, 32)
    torch._dynamo.reset()
    run = compiled(model)
    with torch.no_grad():
        for _ in range(3):
            with pytest.raises(IndexError):
                run(x, torch.tensor([100]))
            torch.testing.assert_close(
                run(x, torch.tensor([3])), model(x, torch.tensor([3]))
            )


# Calls that keep their order


def draws(x):
    """Draws random numbers on three streams, the most urgent one last."""
    first = torch.rand_like(x)
    with anabranch.stream("a"):
        second = torch.bernoulli(x.sigmoid())
        third = torch.randn_like(x)
    fourth = torch.rand_like(x) + x
    with anabranch.stream("b", priority=5):
        fifth = torch.randint_like(x, 100)
    return first, second, third, fourth, fifth


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_random_numbers_are_drawn_in_program_order(threads):
    run = compiled(draws, threads=threads)
    x = torch.randn(40, 40)
    with torch.no_grad():
        for seed in range(20):
            torch.manual_seed(seed)
            expected = draws(x)
            state = torch.get_rng_state()
            torch.manual_seed(seed)
            assert all(map(torch.equal, run(x), expected))
            assert torch.equal(torch.get_rng_state(), state)


def test_random_numbers_keep_their_order_on_found_streams(machine, program):
    def model(x):
        values = [torch.rand_like(x) + i for i in range(4)]
        for _ in range(3):
            values = [(value @ value).tanh() * 0.1 for value in values]
        return torch.stack(values + [torch.rand_like(x)]).sum(0)

    x = torch.randn(48, 48)
    assert len(program(model, x, streams="auto", threads=2)) == 2
    run = compiled(model, streams="auto", threads=2)
    with torch.no_grad():
        for seed in range(10):
            torch.manual_seed(seed)
            expected = model(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(run(x), expected)


def test_a_users_operators_run_in_program_order():
    seen = []

    @torch.library.custom_op("test_streams::note", mutates_args=())
    def note(x: torch.Tensor, number: int) -> torch.Tensor:
        seen.append(number)
        return x.clone()

    note.register_fake(lambda x, number: torch.empty_like(x))

    def model(x):
        values = [note(x, 0)]
        for number in range(1, 9):
            with anabranch.stream(str(number % 3), priority=number % 3):
                values.append(note(x, number))
        return tuple(values)

    for threads in (1, 3):
        torch._dynamo.reset()
        run = compiled(model, threads=threads)
        with torch.no_grad():
            for _ in range(5):
                seen.clear()
                run(torch.ones(3))
                assert seen == list(range(9))


def test_an_operator_without_results_runs_for_its_effect():
    seen = []

    @torch.library.custom_op("test_streams::tell", mutates_args=())
    def tell(x: torch.Tensor, text: str) -> None:
        seen.append((text, x.tolist()))

    tell.register_fake(lambda x, text: None)
    has_side_effect(torch.ops.test_streams.tell.default)  # or PyTorch drops it

    def model(x):
        tell(x, "first")
        with anabranch.stream("s"):
            y = x * 2
            tell(y, "second")
        tell(x + 1, "third")
        return y

    for dynamic in (False, True):
        torch._dynamo.reset()
        anabranch.counters.reset()
        run = compiled(model, dynamic=dynamic)
        with torch.no_grad():
            for size in (2, 3):
                seen.clear()
                assert run(torch.ones(size)).tolist() == [2.0] * size
                assert seen == [
                    ("first", [1.0] * size),
                    ("second", [2.0] * size),
                    ("third", [2.0] * size),
                ]
        assert anabranch.counters.eager_graphs == 0


def test_an_exception_of_a_users_operator_reaches_the_caller():
    @torch.library.custom_op("test_streams::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x[0] < 0:
            raise LookupError("picky does not like this")
        return x.clone()

    picky.register_fake(torch.empty_like)

    def model(x):
        with anabranch.stream("s"):
            y = picky(x)
        with anabranch.stream("t"):
            z = (x @ x.sin().diag()).tanh()
        return y, z

    run = compiled(model, threads=3)
    x = torch.ones(64)
    with torch.no_grad():
        for _ in range(3):
            with pytest.raises(LookupError, match="does not like this"):
                run(-x)
            torch.testing.assert_close(run(x), model(x))


# Many tags

LIMIT = 62  # the number of streams that the runtime runs at once


def test_more_tags_than_the_runtime_has_streams_share_the_last(program):
    def model(x, y):
        values = [y]
        for number in range(LIMIT + 8):
            with anabranch.stream(f"s{number}"):
                values.append(x @ values[number % 7])
        return tuple(values[1:])

    streams = program(model, torch.randn(4, 4), torch.randn(4, 4), threads=3)
    assert len(streams) == LIMIT - 1, "no command is on the main stream"
    launches = {name: kinds(c).count("launch") for name, c in streams.items()}
    assert launches.pop(f"s{LIMIT - 2}") == 10 and set(launches.values()) == {1}


def test_the_example_runs(tmp_path):
    example = Path(__file__).parents[3] / "examples" / "02_streams.py"
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(anabranch.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    gaps = re.findall(r"largest difference (\S+)", done.stdout)
    assert len(gaps) == 3 and all(float(gap) < 1e-5 for gap in gaps)
    assert (tmp_path / "streams.html").stat().st_size > 10_000


# Random graphs


def random_model(seed: int):
    """A model of small kernels in random scopes, with random waits."""
    plan = random.Random(seed)
    steps = []
    for number in range(plan.randint(4, 14)):
        steps.append(
            (
                plan.choice(["mm", "add", "sum", "exp", "t"]),
                plan.randrange(number + 2),
                plan.randrange(number + 2),
                plan.choice([None, None, "a", "b", "c"]),
                plan.randrange(2, number + 2)
                if number and plan.random() < 0.3
                else None,
                plan.random() < 0.3,
            )
        )

    def step(kind, x, y):
        if kind == "mm":
            return (x @ y) * 0.1
        if kind == "add":
            return x + y.relu()
        if kind == "sum":
            return x - y.mean(0, keepdim=True)
        return (x.tanh() + y).exp() * 0.01 if kind == "exp" else x.T + y

    def one(kind, x, y, dependency, used):
        if dependency is not None:
            waited = anabranch.wait(x, dependency)
            x = waited if used else x
        return step(kind, x, y)

    def model(x, y):
        values = [x, y]
        for kind, first, second, tag, dependency, used in steps:
            after = None if dependency is None else values[dependency]
            if tag is None:
                new = one(kind, values[first], values[second], after, used)
            else:
                with anabranch.stream(tag):
                    new = one(kind, values[first], values[second], after, used)
            values.append(new)
        return tuple(values[2:])

    return model


@pytest.mark.parametrize("seed", range(8))
def test_random_scopes_change_no_bit(seed):
    model = random_model(seed)
    inputs = torch.randn(48, 48), torch.randn(48, 48)
    results = {}
    for streams, threads in (("off", 1), ("marked", 1), ("marked", 2), ("marked", 3)):
        torch._dynamo.reset()
        run = compiled(model, streams=streams, threads=threads)
        with torch.no_grad():
            results[streams, threads] = [run(*inputs) for _ in range(5)]
    expected = model(*inputs)
    torch.testing.assert_close(results["marked", 1][0], expected)
    for rounds in results.values():
        for result in rounds:
            for ours, first in zip(result, results["marked", 1][0]):
                torch.testing.assert_close(ours, first, rtol=1e-5, atol=1e-5)
    for threads in (2, 3):
        for result in results["marked", threads]:
            assert all(map(torch.equal, result, results["marked", 1][0]))


# Streams that the compiler finds


@pytest.fixture
def machine(monkeypatch):
    """Makes the compiler plan for two real cores, on any machine."""
    from anabranch.packages import package

    model = {
        "workers": 2,
        "gflops": 50,
        "gflops_all": 100,
        "cache_gbs": 50,
        "cache_gbs_all": 100,
        "wake_us": 2,
    }
    monkeypatch.setattr(package, "_machine", lambda threads: model)
    return model


def towers(x):
    values = [x + i for i in range(4)]
    for _ in range(3):
        values = [(value @ value).tanh() * 0.1 for value in values]
    return torch.stack(values).sum(0)


def test_independent_towers_are_found(machine, program):
    streams = program(towers, torch.randn(48, 48), streams="auto", threads=2)
    assert len(streams) == 2
    assert min(kinds(commands).count("launch") for commands in streams.values()) > 3


def test_a_chain_stays_on_one_stream(machine, program):
    def chain(x):
        for _ in range(5):
            x = (x @ x).tanh() * 0.1
        return x

    streams = program(chain, torch.randn(48, 48), streams="auto", threads=2)
    assert list(streams) == ["main"]


def test_one_cpu_wakes_nobody(machine, program):
    machine |= {"workers": 1, "gflops_all": 50, "cache_gbs_all": 50, "wake_us": 0}
    streams = program(towers, torch.randn(48, 48), streams="auto", threads=1)
    assert list(streams) == ["main"]


def test_hyperthreads_are_no_gain(machine, program):
    machine |= {"gflops_all": 50, "cache_gbs_all": 50}
    streams = program(towers, torch.randn(48, 48), streams="auto", threads=2)
    assert list(streams) == ["main"]


def test_marks_come_before_what_auto_finds(machine, program):
    def model(x):
        with anabranch.stream("mine"):
            y = towers(x)
        return y + 1

    streams = program(model, torch.randn(48, 48), streams="auto", threads=2)
    assert set(streams) == {"main", "mine"}


def explained_towers() -> str:
    """The compiler's explanation of its streams for towers."""
    torch._dynamo.reset()
    with torch.no_grad():
        options = {"streams": "auto", "threads": 2, "explain": True}
        compiled(towers, **options)(torch.randn(48, 48))
    return str(anabranch.last_report())


def test_auto_explains_itself(machine, capsys):
    report = explained_towers()
    assert "on one stream" in report
    # The text names every branch, its cost, and why it was moved or not.
    assert re.search(
        r"not main stream: runs on 'auto1' beside others, where it ends first"
        r" \([\d.]+ us alone, [\d.]+ us beside others, [\d.]+ us on all workers\)",
        report,
    )
    assert "not another stream: it ends first on the main stream (" in report


def test_auto_explains_why_nothing_moves(machine, capsys):
    machine |= {"gflops_all": 50, "cache_gbs_all": 50}
    report = explained_towers()
    assert "not several streams: the model expects" in report
    assert "not another stream: all branches together would gain too little" in report


def test_scopes_in_eager_leave_what_another_thread_traces():
    """PyTorch keeps annotations in one dictionary of the process, for all threads."""
    inside = threading.Event()
    done = threading.Event()

    def other():
        with anabranch.stream("other"):
            inside.set()
            done.wait(10)

    def function(x):
        with anabranch.stream("side"):
            return x + 1

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    x = torch.ones(3)
    assert torch.equal(anabranch.compile(function)(x), x + 1)
    done.set()
    thread.join()
    assert "custom" not in torch.fx.traceback.current_meta
