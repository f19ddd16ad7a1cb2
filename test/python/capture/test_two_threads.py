"""Threads that trace at once leave PyTorch's globals, and each other's traces, alone."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.convert_frame import _bytecode_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import interpolate

from anabranch.backend import anabranch as backend
from anabranch.capture import aot
from anabranch.capture.decompositions import interpolation
from anabranch.capture.recurrent import operators, tracing
from anabranch.method_cache.save.code_hook import translations
from anabranch.shapes import unit_sizes

BLOCKS = {
    "whole composites": aot.whole_composites,
    "recurrent layers": lambda: tracing.taken_in(packed=False),
    "packed recurrent layers": lambda: tracing.taken_in(packed=True),
    "linear interpolation": interpolation.in_traces,
    "sizes of one": unit_sizes.compiling_only,
    "recordings": lambda: translations(lambda old, new: None),
}


def globals_of_pytorch():
    changed = {*aot._composites(), *operators.RULES, *interpolation.decompositions()}
    kernels = {operator: dict(operator.py_kernels) for operator in changed}
    settings = torch._dynamo.config.allow_rnn, dict(torch._decomp.decomposition_table)
    return kernels, settings, dict(_bytecode_hooks)


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_blocks_that_overlap_leave_globals_as_they_were(block):
    """The second thread enters while the first one is inside, unless something holds
    it back, and leaves last."""
    inside, both, left = (threading.Event() for _ in range(3))

    def second():
        inside.wait(60)
        with block():
            both.set()
            left.wait(60)

    with block():
        pass  # what stays for good is there now
    before = globals_of_pytorch()
    thread = threading.Thread(target=second)
    thread.start()
    with block():
        inside.set()
        both.wait(0.2)
    left.set()
    thread.join(60)
    assert globals_of_pytorch() == before


def parts(x):
    """The operators that PyTorch's own trace makes of an interpolation."""
    with enable_python_dispatcher():
        graph = make_fx(lambda x: interpolate(x, scale_factor=2, mode="bilinear"))(x)
    return [node.target for node in graph.graph.nodes]


def test_another_thread_traces_as_pytorch_does():
    x = torch.randn(1, 2, 3, 3)
    before, found = parts(x), []
    thread = threading.Thread(target=lambda: found.append(parts(x)))
    with interpolation.in_traces():
        thread.start()
        thread.join(60)
        assert parts(x) != before
    assert found == [before]
    assert parts(x) == before


def test_a_kernel_that_pytorch_restored_is_replaced_again():
    """torch.export saves and restores the table of kernels."""
    x = torch.randn(1, 2, 3, 3)
    before = parts(x)
    (operator,) = (p.vec for p in interpolation.PACKETS if "2d" in str(p))
    saved = {
        key: getattr(kernel, "others", kernel)
        for key, kernel in operator.py_kernels.items()
    }
    operator.py_kernels.update(saved)
    operator._dispatch_cache.clear()
    with interpolation.in_traces():
        assert parts(x) != before


def test_two_threads_compile_outside_of_dynamo():
    """Each thread traces graphs that keep attention whole and interpolate."""
    failed = []

    def graph(x, q):
        y = interpolate(x, scale_factor=2, mode="bilinear")
        z = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return y, z

    # PyTorch's symbolic traces are for one thread.
    modules = [torch.fx.symbolic_trace(graph) for _ in range(2)]

    def run(module, rows):
        x, q = torch.randn(1, 2, rows, 3), torch.randn(1, 2, rows, 8)
        x[0, 0, 0, 0] = torch.inf
        try:
            with torch.no_grad():
                compiled = backend(module, [x, q])
                torch.testing.assert_close(tuple(compiled(x, q)), graph(x, q))
        except BaseException as error:  # noqa: BLE001 - a thread's errors are lost
            failed.append(error)

    threads = [threading.Thread(target=run, args=a) for a in zip(modules, (3, 4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed


def test_the_lock_of_a_failed_trace_is_free():
    with contextlib.suppress(ValueError), aot.whole_composites():
        raise ValueError
    free = []

    def enter():
        with aot.whole_composites():
            free.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(60)
    assert free


@pytest.mark.parametrize("dynamic", [False, True])
def test_cold_threads_of_pools_call_what_another_thread_compiled(dynamic):
    """A new thread has no team of OpenMP, no frames and PyTorch's default modes."""
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)
    ).eval()
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    inputs = [torch.randn(128, 64) for _ in range(8)]
    wanted = [model(x).detach() for x in inputs]
    compiled(inputs[0])
    with torch.no_grad():
        compiled(inputs[0])

    def without_gradients(x):
        with torch.no_grad():
            return compiled(x)

    for _ in range(4):
        for call in (compiled, without_gradients):
            with ThreadPoolExecutor(4) as pool:
                results = list(pool.map(call, inputs))
            for found, right in zip(results, wanted, strict=True):
                assert found.requires_grad == (call is compiled)
                torch.testing.assert_close(found.detach(), right)
