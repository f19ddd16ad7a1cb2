"""torch.compile(...).aot_compile saves graphs, and a process loads them without
compiling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_cases import CASES, Case, Mlp

import anabranch
from anabranch.errors import SavedGraphError
from anabranch.packages import cache


@pytest.fixture(autouse=True)
def enabled(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    with torch._dynamo.config.patch(enable_aot_compile=True):
        yield


def save(case: Case, path: Path, **how: Any) -> Any:
    """Compiles the function of a case, and saves it. Returns the function."""
    made = case.function()
    compiled = torch.compile(
        made, backend=anabranch.anabranch, fullgraph=True, options=case.options, **how
    )
    entry = compiled.forward if isinstance(made, torch.nn.Module) else compiled
    saved = entry.aot_compile((case.inputs(), {}))
    saved.save_compiled_function(str(path))
    torch.testing.assert_close(case.call(saved, made), case.call(made, made))
    return made


def load(path: Path) -> Any:
    torch._dynamo.reset()
    anabranch.counters.reset()
    with open(path, "rb") as file:
        return torch.compiler.load_compiled_function(file)


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_graph_equals_eager_and_compiles_nothing(name, tmp_path) -> None:
    case, path = CASES[name], tmp_path / "saved"
    with torch.no_grad():
        made = save(case, path)
        loaded = load(path)
        torch.testing.assert_close(case.call(loaded, made), case.call(made, made))
    assert anabranch.counters.compiles == anabranch.counters.cache_hits == 0
    assert anabranch.counters.loaded or name == "complex"


SCRIPT = """
import sys, torch
from saved_cases import CASES

with torch.no_grad():
    for name, path in zip(sys.argv[1::2], sys.argv[2::2]):
        with open(path, "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        made = CASES[name].function()
        got = CASES[name].call(loaded, made)
        torch.testing.assert_close(got, CASES[name].call(made, made))
assert "libanabranch_compiler" not in open("/proc/self/maps").read()
"""


def test_another_process_loads_without_the_compiler(tmp_path) -> None:
    arguments = []
    with torch.no_grad():
        for number, name in enumerate(("frozen", "parted", "writes")):
            arguments += [name, str(tmp_path / str(number))]
            save(CASES[name], tmp_path / str(number))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_symbolic_sizes_stay_symbolic(tmp_path) -> None:
    path = tmp_path / "saved"
    with torch.no_grad():
        made = save(CASES["live"], path, dynamic=True)
        loaded = load(path)
        for rows in (2, 7, 64):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(loaded(made, x), made(x))


def test_a_loaded_graph_follows_frozen_weights(tmp_path) -> None:
    path = tmp_path / "saved"
    with torch.no_grad():
        made = save(CASES["frozen"], path)
        loaded, x = load(path), torch.randn(5, 16)
        loaded(made, x)
        made.up.weight.add_(1)
        torch.testing.assert_close(loaded(made, x), made(x))
        assert anabranch.counters.repacked == 1


def test_other_weights_than_the_saved_ones_are_packed(tmp_path) -> None:
    path = tmp_path / "saved"
    with torch.no_grad():
        save(CASES["frozen"], path)
        others = [Mlp() for _ in range(2)]
        loaded, x = load(path), torch.randn(5, 16)
        for _ in range(2):
            for other in others:
                torch.testing.assert_close(loaded(other, x), other(x))
    assert anabranch.counters.compiles == len(others)


def test_training_graphs_are_saved(tmp_path) -> None:
    case, path = CASES["live"], tmp_path / "saved"
    made = save(case, path)
    loaded, (x,) = load(path), case.inputs()
    found = torch.autograd.grad(loaded(made, x).sum(), made.up.weight)
    expected = torch.autograd.grad(made(x).sum(), made.up.weight)
    torch.testing.assert_close(found, expected)


def test_a_loaded_graph_refuses_arguments_that_share_memory(tmp_path) -> None:
    path, memory = tmp_path / "saved", torch.randn(6)
    save(CASES["writes"], path)
    with pytest.raises(SavedGraphError, match="shares memory with another"):
        load(path)(memory[:4], memory[2:])


def doubles(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + y


def test_arguments_that_share_memory_are_saved_as_pytorchs_graph(tmp_path) -> None:
    def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
        memory = torch.randn(6)
        return memory[:4], memory[2:]

    shared = Case(lambda: doubles, overlapping)
    save(shared, tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    torch.testing.assert_close(
        shared.call(loaded, doubles), shared.call(doubles, doubles)
    )
    assert anabranch.counters.loaded == 0


def test_a_damaged_graph_is_refused(tmp_path) -> None:
    path = tmp_path / "saved"
    with torch.no_grad():
        save(CASES["live"], path)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x7fELF") + 500] ^= 1
    path.write_bytes(content)
    with pytest.raises(SavedGraphError, match="damaged.*compile the model again"):
        load(path)


@pytest.mark.parametrize("part", ["processor", "compiler", "runtime"])
def test_a_foreign_graph_is_refused(part, tmp_path, monkeypatch) -> None:
    path = tmp_path / "saved"
    with torch.no_grad():
        save(CASES["live"], path)
    own = dict(zip(("processor", "compiler", "runtime"), cache.identity()))
    monkeypatch.setattr(cache, "identity", lambda: tuple((own | {part: "7"}).values()))
    with pytest.raises(SavedGraphError, match=f"another {part}.*compile the model"):
        load(path)
