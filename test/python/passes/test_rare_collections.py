"""A compilation looks for garbage less often, and leaves the caller's settings."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
import torch

from anabranch.capture.traces import rare_collections


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_thresholds_return_after_a_compilation_and_after_an_error():
    seen = []

    compiled = torch.compile(lambda x: x + 1, backend="anabranch")
    compiled(torch.ones(3))
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(ValueError), rare_collections.rare():
        seen.append(gc.get_threshold())
        raise ValueError
    assert seen == [(20_000, 10, 10)]
    assert gc.get_threshold() == (700, 10, 10)


def test_a_compilation_collects_less_often():
    def collections(backend: str) -> int:
        torch.compiler.reset()
        before = gc.get_stats()[0]["collections"]
        torch.compile(lambda x: x.sin() + x.cos(), backend=backend)(torch.ones(3))
        return gc.get_stats()[0]["collections"] - before

    collections("anabranch")  # what is made once
    assert collections("anabranch") < collections("aot_eager") / 2


@pytest.mark.parametrize("chosen", [(0, 10, 10), (50_000, 5, 5)])
def test_a_callers_choice_stays(chosen):
    gc.set_threshold(*chosen)
    with rare_collections.rare():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_a_choice_that_is_made_meanwhile_stays():
    with rare_collections.rare():
        gc.set_threshold(1_000, 2, 3)
    assert gc.get_threshold() == (1_000, 2, 3)


def test_threads_inside_at_the_same_time():
    entered, go = threading.Event(), threading.Event()

    def other() -> None:
        with rare_collections.rare():
            entered.set()
            go.wait()

    thread = threading.Thread(target=other)
    with rare_collections.rare():
        thread.start()
        entered.wait()
    assert gc.get_threshold() == (20_000, 10, 10)
    go.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)
