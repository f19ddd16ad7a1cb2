"""Marks in eager code of one thread while another thread compiles: PyTorch's flags and
annotations belong to the whole process, marks to the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

import anabranch


def scoped(x: torch.Tensor) -> torch.Tensor:
    with anabranch.stream("side"):
        side = torch.relu(x)
    with anabranch.super_kernel("pair"), anabranch.limit_cores(1):
        y = anabranch.wait(torch.tanh(x), side)
        return y * side + 1


@pytest.fixture
def compilation() -> Iterator[None]:
    """During the test another thread is in the middle of a compilation."""
    inside, done = threading.Event(), threading.Event()

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        inside.set()
        assert done.wait(60)
        return module.forward

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    compiling = threading.Thread(target=compiled, args=(torch.randn(4, 8),))
    compiling.start()
    try:
        assert inside.wait(60)
        yield
    finally:
        done.set()
        compiling.join()


@pytest.mark.usefixtures("compilation")
def test_eager_marks_leave_no_annotation() -> None:
    assert torch.compiler.is_compiling()
    with anabranch.stream("side"):
        assert "custom" not in torch.fx.traceback.current_meta


@pytest.mark.usefixtures("compilation")
def test_eager_waits_return_their_tensor() -> None:
    x = torch.randn(4, 8)
    assert anabranch.wait(x, x) is x
    with pytest.raises(ValueError, match="never recorded"):
        anabranch.wait_event("an event that nobody records")
    with (
        pytest.raises(ValueError, match="no-such-option"),
        anabranch.super_kernel("s", "no-such-option=1"),
    ):
        pass


def test_threads_enter_scopes_while_one_compiles() -> None:
    x = torch.randn(4, 8)
    expected = scoped(x)
    over = threading.Event()
    faults: list[str] = []

    def call_eagerly() -> None:
        while not over.is_set():
            try:
                if not torch.equal(scoped(x), expected):
                    faults.append("another value")
            except Exception as error:  # noqa: BLE001 - errors are the result
                faults.append(repr(error))

    threads = [threading.Thread(target=call_eagerly) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            torch._dynamo.reset()
            found = torch.compile(scoped, backend="anabranch")(x)
            torch.testing.assert_close(found, expected)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not faults
