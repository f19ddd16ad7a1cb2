"""The executable itself: refused arguments, threads, memory, interruption."""

import gc
import json
import os
import resource
import signal
import threading
import time

import pytest
import torch
from checking import assert_equal

from anabranch import _C, CompileError, config
from anabranch.describe.description import Description
from anabranch.packages import package


def increment(rows: int | str = 4) -> Description:
    """x + 1 over [rows, 3], written by hand."""
    symbols = [{"name": rows, "min": 0, "hint": 4}] if isinstance(rows, str) else []
    graph = {
        "version": 1,
        "name": "increment",
        "symbols": symbols,
        "inputs": [
            {
                "name": "x",
                "label": "x",
                "kind": "input",
                "dtype": "f32",
                "shape": [rows, 3],
            }
        ],
        "nodes": [
            {
                "name": "y",
                "op": "aten.add.Tensor",
                "args": {"self": {"ref": "x"}, "other": 1, "alpha": 1},
                "results": [{"dtype": "f32", "shape": [rows, 3]}],
                "loc": {"file": "m.py", "line": 3, "function": "f", "code": "x + 1"},
            }
        ],
        "outputs": [{"ref": "y"}],
        "mutations": [],
    }
    return Description(graph, {}, 1, [0], [], [], [])


def build(description: Description) -> _C.Executable:
    executable = package.build(description, config.Config())
    assert executable is not None
    return executable


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ([], TypeError, "expected 1 arguments, got 0"),
        ([1], TypeError, "expected a tensor"),
        ([torch.ones(4, 3).double()], TypeError, "f64"),
        ([torch.ones(5, 3)], ValueError, "shape"),
        ([torch.ones(4, 3, 1)], ValueError, "x"),
        ([torch.ones(3, 4).t()], ValueError, "contiguous"),
        ([torch.ones(4, 3, device="meta")], ValueError, "meta"),
        ([torch.ones(4, 3).to_sparse()], ValueError, "sparse"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    executable = build(increment())
    with pytest.raises(error, match=words):
        executable(arguments)
    x = torch.randn(4, 3)
    assert_equal(executable([x]), (x + 1,))


def test_wrong_calls():
    executable = build(increment())
    x = torch.ones(4, 3)
    with pytest.raises(TypeError, match="expected 1 arguments, got 0"):
        executable()
    with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
        executable(x, x)
    with pytest.raises(TypeError, match="by position"):
        executable(x=x)
    assert_equal(executable(x), executable([x]))


def test_what_a_program_says_of_itself():
    executable = build(increment("s0"))
    assert executable.inputs[0]["name"] == "x"
    assert executable.inputs[0]["shape"] == [-1, 3]
    assert executable.outputs[0]["dtype"] == "f32"
    assert executable.kernels == 1 and executable.host_calls == 0


def shared_sizes() -> Description:
    """x + y, and -z with z twice as long, for 2 to 64 elements."""
    vector = {"kind": "input", "dtype": "f32", "shape": ["s0"]}
    twice = [["mul", "s0", 2]]
    graph = {
        "version": 1,
        "name": "shared",
        "symbols": [{"name": "s0", "min": 2, "max": 64, "hint": 4}],
        "inputs": [
            {"name": "x", **vector},
            {"name": "y", **vector},
            {"name": "z", **vector, "shape": twice},
        ],
        "nodes": [
            {
                "name": "add",
                "op": "aten.add.Tensor",
                "args": {"self": {"ref": "x"}, "other": {"ref": "y"}, "alpha": 1},
                "results": [{"dtype": "f32", "shape": ["s0"]}],
            },
            {
                "name": "neg",
                "op": "aten.neg.default",
                "args": {"self": {"ref": "z"}},
                "results": [{"dtype": "f32", "shape": twice}],
            },
        ],
        "outputs": [{"ref": "add"}, {"ref": "neg"}],
        "mutations": [],
    }
    return Description(graph, {}, 3, [0, 1, 2], [], [], [])


@pytest.mark.parametrize(
    "sizes, words",
    [
        ((7, 5, 14), r"argument 1 'y'.*\(5\).*argument 0 'x' \(7\)"),
        ((7, 7, 13), r"argument 2 'z': expected shape \[14\], got \[13\]"),
        ((1, 1, 2), "argument 0 'x' is 1, but .* 2 or more"),
        ((65, 65, 130), "argument 0 'x' is 65, but .* 64 or less"),
    ],
)
def test_sizes_that_inputs_share(sizes, words):
    executable = build(shared_sizes())
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            executable([torch.ones(n) for n in sizes])
        x, y, z = torch.randn(7), torch.randn(7), torch.randn(14)
        assert_equal(executable([x, y, z]), (x + y, -z))


def test_many_threads_call_one_executable():
    executable = build(increment("s0"))
    failures = []

    def work(seed: int) -> None:
        x = torch.full((seed + 1, 3), float(seed))
        for _ in range(300):
            if not torch.equal(executable([x])[0], x + 1):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_inputs_that_require_gradients():
    x = torch.randn(4, 3, requires_grad=True)
    (y,) = build(increment())([x])
    assert not y.requires_grad
    assert_equal(y, (x + 1).detach())


def test_a_bad_graph_is_a_compile_error():
    bad = increment()
    bad.graph["nodes"][0]["args"]["self"] = {"ref": "nobody"}
    with pytest.raises(CompileError, match="nobody'\n  at m.py:3"):
        build(bad)


@pytest.mark.parametrize("shape", [[5, 3], [4, 3, 1], [-4, 3]])
def test_a_result_that_cannot_be_is_a_compile_error(shape):
    bad = increment()
    bad.graph["nodes"][0]["results"][0]["shape"] = shape
    with pytest.raises(CompileError, match="m.py:3"):
        build(bad)


def test_a_result_with_too_few_dimensions_is_not_lowered():
    odd = increment()
    odd.graph["nodes"][0]["results"][0]["shape"] = [4]
    executable = build(odd)
    assert executable.kernels == 0 and executable.host_calls == 1


def test_an_impossible_node_names_the_users_line():
    bad = increment()
    bad.graph["nodes"][0]["op"] = "aten.no_such_operator.default"
    with pytest.raises((CompileError, RuntimeError, AttributeError), match="no_such"):
        build(bad)


def compile_into(folder, progress=None):
    return _C.compile(
        json.dumps(increment().graph), [], "{}", str(folder / "package"), progress
    )


def test_progress_and_what_it_raises(tmp_path):
    phases = []
    compile_into(tmp_path, lambda phase, done, total: phases.append(phase))
    assert "codegen" in phases

    def stop(phase, done, total):
        raise LookupError("enough")

    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(LookupError, match="enough"):
        compile_into(other, stop)
    assert not list(other.iterdir())


def test_ctrl_c_leaves_nothing(tmp_path):
    def interrupt(phase, done, total):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    # A background job starts with SIGINT ignored; Python then installs no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_into(tmp_path, interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not list(tmp_path.iterdir())
    compile_into(tmp_path)


def resident_kib() -> int:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


@pytest.mark.slow
def test_memory_does_not_grow():
    x = torch.randn(4, 3)

    def cycles(count: int) -> None:
        for _ in range(count):
            build(increment())([x])

    cycles(100)
    before = resident_kib()
    cycles(300)
    # Pages of the allocator come and go. A leak adds up over the cycles.
    assert resident_kib() - before < 400


def test_calls_do_not_leak():
    executable = build(increment("s0"))
    x = torch.randn(200, 3)
    for _ in range(1000):
        executable([x])
    before = resident_kib()
    for _ in range(20000):
        executable([x])
    assert resident_kib() - before < 4 * 1024
