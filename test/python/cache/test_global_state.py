"""A cached method under another global state of PyTorch than the trace saw: its answer
is eager's, and has eager's dtype."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch.overrides import TorchFunctionMode

import anabranch


class Negative(TorchFunctionMode):
    """Changes the sign of what linear layers and `ones` give."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        changed = (torch.nn.functional.linear, torch.ones)
        return -result if function in changed else result


@contextlib.contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


STATES = {
    "plain": contextlib.nullcontext,
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", torch.float16),
    "off": lambda: torch.autocast("cpu", enabled=False),
    "default dtype": default_dtype,
    "deterministic": deterministic,
    "mode": Negative,
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 8, dtype=torch.float32)

    def linear(self, x):
        return self.layer(x)

    def new(self, x):
        return x + torch.ones(8) * 2, torch.tensor(1.5) * 2

    def branch(self, x):
        return x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3

    def asks(self, x):
        return x * 2 if torch.is_autocast_enabled("cpu") else x * 3


def same(state: str, call, wanted, x) -> None:
    with STATES[state](), torch.no_grad():
        found, expected = call(x), wanted(x)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("between", [False, True], ids=["first", "between"])
@pytest.mark.parametrize("state", [name for name in STATES if name != "plain"])
@pytest.mark.parametrize("name", ["linear", "new", "branch", "asks"])
def test_other_states_compute_what_eager_does(
    replays, tmp_path, name, state, between
) -> None:
    x = torch.randn(2, 8)
    for number, (traced, other) in enumerate([("plain", state), (state, "plain")]):
        folder = tmp_path / str(number)
        calls = replays(Model, name, folder, traced, other, between)
        for model, call, each in calls:
            same(each, call, getattr(model, name), x)


@pytest.mark.usefixtures("cached")
def test_each_state_has_an_entry(tmp_path) -> None:
    x = torch.randn(2, 8)
    for state in ("plain", "bfloat16", "plain", "bfloat16"):
        torch._dynamo.reset()
        call = anabranch.cache_compile(Model().linear, cache_dir=str(tmp_path))
        same(state, call, Model().linear, x)
    assert anabranch.last_report().get("cache") == "hit"
    assert len(list(tmp_path.glob("functions/*/*/entry.json"))) == 2
