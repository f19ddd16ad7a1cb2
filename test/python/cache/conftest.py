"""Calls of a cached method as two processes make them, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anabranch

Call = Callable[..., Any]


@pytest.fixture
def cached(monkeypatch) -> None:
    """Methods are read from the cache, which tests turn off."""
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)


@pytest.fixture
def replays(cached) -> Callable[..., Iterator[tuple[torch.nn.Module, Call, Any]]]:
    """The function `_replays`, with the cache on."""
    return _replays


def _replays(
    make: Callable[[], torch.nn.Module],
    name: str,
    folder: Path,
    traced: Any,
    other: Any,
    between: bool,
) -> Iterator[tuple[torch.nn.Module, Call, Any]]:
    """The calls that show whether a replay sees another case than its trace: a module,
    its cached method of this name, and the case to call it with. The first call traces.
    Then a new module is called as in a later process, with the other case at once or
    after the traced one."""
    for cases in ((traced,), (traced, other) if between else (other,)):
        torch._dynamo.reset()
        module = make()
        call = anabranch.cache_compile(getattr(module, name), cache_dir=str(folder))
        for case in cases:
            yield module, _quiet(call), case


def _quiet(call: Call) -> Call:
    """The call without the warning that the method was compiled again."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Skip cache as")
            return call(*args, **kwargs)

    return run
