"""Programs that read the same frozen weights hold one copy of them in memory and on disk."""

import copy
import gc
import weakref

import pytest
import torch

import anabranch
from anabranch import _C, cli
from anabranch.packages import cache, donors

WEIGHTS = 512 * 1024 * 4


class Steps(torch.nn.Module):
    """Two steps that use one layer, like prefill and decode of a language model."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(512, 1024)

    def short(self, x):
        return torch.relu(self.fc(x))

    def long(self, x):
        return torch.tanh(self.fc(x))


@pytest.fixture
def made(tmp_path, monkeypatch) -> list:
    """The executables that this test makes, in order."""
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())
    # An earlier test may have had weights of equal bytes at the same address.
    monkeypatch.setattr(donors, "_executables", weakref.WeakValueDictionary())
    executables, add = [], donors.add

    def noted(weights, executable):
        executables.append(executable)
        add(weights, executable)

    monkeypatch.setattr(donors, "add", noted)
    return executables


def run(module, name, rows):
    """Calls a method for the first time, and compares it with eager."""
    torch._dynamo.reset()
    method, x = getattr(module, name), torch.randn(rows, 512)
    config = anabranch.Config(freeze=True)
    cached = anabranch.cache_compile(method, config=config, dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(cached(x), method(x))
    return cached


def test_entries_share_weights_on_disk(made, tmp_path, capsys):
    """Both programs have an entry as a package and one as a method."""
    steps, home = Steps(), tmp_path / "home"
    run(steps, "short", 3)
    run(steps, "long", 5)
    weights = [file.stat() for file in home.glob("*/*/*/constants.safetensors")]
    assert len(weights) == 4
    assert all(file.st_size >= WEIGHTS for file in weights)
    assert len({file.st_ino for file in weights}) == 1
    entries = _C.cache_entries(str(home))
    assert sum(row["bytes"] for row in entries) > 4 * WEIGHTS
    assert WEIGHTS < sum(row["added"] for row in entries) < 2 * WEIGHTS
    assert cli.main(["cache", "ls"]) == 0
    assert "4 entries of 2." in capsys.readouterr().out


def test_methods_share_weights(made, monkeypatch):
    written = Steps()
    run(written, "short", 64)
    run(written, "long", 64)
    module = copy.deepcopy(written)  # no donor: nothing in memory has its weights
    monkeypatch.setattr(torch, "compile", None)  # later methods are read from the cache
    made.clear()
    first, second = run(module, "short", 64), run(module, "long", 64)
    assert made[0].cached_bytes >= WEIGHTS
    assert made[1].cached_bytes < WEIGHTS / 10
    # The second executable keeps the weights that it took from the first.
    made.clear()
    del first, written
    gc.collect()
    x = torch.randn(64, 512)
    with torch.no_grad():
        torch.testing.assert_close(second(x), module.long(x))


def test_compiled_methods_share_weights(made):
    module = Steps()
    kept = run(module, "short", 64), run(module, "long", 64)
    assert kept and made[0].cached_bytes >= WEIGHTS > 10 * made[1].cached_bytes


def test_other_weights_are_not_shared(made):
    kept = run(Steps(), "short", 64), run(Steps(), "long", 64)
    assert kept and all(executable.cached_bytes >= WEIGHTS for executable in made)


def test_changed_weights_are_followed(made):
    """A donor that still has the old bytes is not used after a change."""
    module = Steps()
    kept = run(module, "short", 64)
    with torch.no_grad():
        module.fc.weight.mul_(2)
    second = run(module, "long", 64)
    x = torch.randn(64, 512)
    with torch.no_grad():
        torch.testing.assert_close(kept(x), module.short(x))
        torch.testing.assert_close(second(x), module.long(x))


def test_frozen_methods_are_read_without_dynamo(made, monkeypatch):
    module = Steps()
    run(module, "short", 4)
    with monkeypatch.context() as context:
        context.setattr(torch, "compile", None)
        run(module, "short", 4)
    with torch.no_grad():
        module.fc.bias.add_(1)
    run(module, "short", 4)  # the entry is for the old weights
