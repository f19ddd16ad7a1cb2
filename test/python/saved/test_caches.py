"""PyTorch's caches keep Anabranch's graphs: AOTAutograd's, precompiled code, and what
save_cache_artifacts carries to another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from saved_cases import CASES
from torch._C._dynamo.eval_frame import _reset_precompile_entries
from torch._dynamo.utils import counters
from torch.compiler._cache import CacheArtifactManager

import anabranch
from anabranch.packages import cache, handed_over


@pytest.fixture(autouse=True)
def homes(tmp_path, monkeypatch):
    """Empty caches of PyTorch and of Anabranch."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(handed_over, "_offered", set())
    monkeypatch.setattr(cache, "_warned", set())
    with CacheArtifactManager.with_fresh_cache():
        yield tmp_path


def compile_and_check(name: str, made=None, **options) -> None:
    torch._dynamo.reset()
    anabranch.counters.reset()
    counters.clear()
    case = CASES[name]
    made = made or case.function()
    # Precompiled code stays with the function of the process.
    _reset_precompile_entries(getattr(made, "forward", made).__code__)
    options = {**(case.options or {}), **options}
    compiled = torch.compile(made, backend=anabranch.anabranch, options=options)
    with torch.no_grad():
        torch.testing.assert_close(case.call(compiled, compiled), case.call(made, made))


# AOTAutograd's cache


@pytest.fixture
def bundled():
    with torch._functorch.config.patch(bundled_autograd_cache=True):
        yield


def test_aotautograd_finds_a_graph(bundled) -> None:
    compile_and_check("live")
    assert anabranch.counters.compiles == 1
    compile_and_check("live")
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert (anabranch.counters.compiles, anabranch.counters.loaded) == (0, 1)


def test_aotautograd_tells_options_from_each_other(bundled) -> None:
    compile_and_check("live")
    compile_and_check("live", super_kernels="off")
    assert anabranch.counters.compiles == 1


def test_aotautograd_tells_frozen_values_from_each_other(bundled) -> None:
    compile_and_check("frozen")
    other = CASES["frozen"].function()
    with torch.no_grad():
        other.up.bias.add_(1)
    compile_and_check("frozen", other)
    assert anabranch.counters.compiles == 1
    compile_and_check("frozen", other)
    assert anabranch.counters.loaded == 1


def test_equal_layers_share_a_graph_and_not_their_frozen_weights(bundled) -> None:
    layers = [CASES["frozen"].function() for _ in range(3)]
    with torch.no_grad():
        for number, layer in enumerate(layers):
            layer.up.bias.add_(number)
            layer.compile(backend=anabranch.anabranch, options={"freeze": True})
        x = torch.randn(5, 16)
        for _ in range(2):
            for layer in layers:
                torch.testing.assert_close(layer(x), layer.forward(x))


def marked(x):
    with anabranch.stream("side"):
        y = torch.exp(x)
    return y + torch.sin(x)


def unmarked(x):
    y = torch.exp(x)
    return y + torch.sin(x)


def test_aotautograd_tells_marks_from_none(bundled) -> None:
    x = torch.randn(8)
    for function in (unmarked, marked):
        anabranch.counters.reset()
        torch._dynamo.reset()
        run = torch.compile(function, backend=anabranch.anabranch)
        torch.testing.assert_close(run(x), function(x))
        assert anabranch.counters.compiles == 1


def test_a_damaged_entry_is_compiled_again(bundled, homes) -> None:
    compile_and_check("live")
    for path in (homes / "torch" / "aotautograd").rglob("*"):
        if path.is_file():
            content = bytearray(path.read_bytes())
            content[content.index(b"\x7fELF") + 500] ^= 1
            path.write_bytes(content)
    compile_and_check("live")
    assert anabranch.counters.compiles == 1


# Precompiled code


@pytest.fixture
def precompiled():
    with torch._dynamo.config.patch(caching_precompile=True):
        yield


def precompile(name: str) -> None:
    from torch._dynamo.precompile_context import PrecompileContext

    PrecompileContext.clear()
    compile_and_check(name)
    PrecompileContext.save_to_dynamo_cache()


@pytest.mark.parametrize("name", ["live", "frozen", "parted", "writes"])
def test_precompiled_code_runs_without_compiling(name, precompiled) -> None:
    precompile(name)
    assert anabranch.counters.graphs
    compile_and_check(name)
    assert anabranch.counters.compiles == 0
    assert anabranch.counters.loaded
    assert counters["dynamo_cache"]["dynamo_cache_hit"] == 1


def test_precompiled_code_of_another_processor_is_compiled_again(
    precompiled, monkeypatch
) -> None:
    precompile("live")
    identity = cache.identity()
    monkeypatch.setattr(cache, "identity", lambda: ("another", *identity[1:]))
    compile_and_check("live")
    assert (anabranch.counters.compiles, anabranch.counters.loaded) == (1, 0)
    assert counters["dynamo_cache"]["dynamo_cache_error"] == 1


# Bytes for another machine


def handed(homes: Path, monkeypatch) -> bytes:
    """The bytes after two models were compiled; the caches are empty again."""
    monkeypatch.delenv("ANABRANCH_CACHE")
    for name in ("live", "frozen"):
        compile_and_check(name)
    made, about = torch.compiler.save_cache_artifacts()
    assert len(about.aot_autograd_artifacts) == 2
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "ANABRANCH_CACHE_HOME"):
        monkeypatch.setenv(variable, str(homes / f"other-{variable}"))
    return made


def test_packages_travel_in_pytorchs_bytes(homes, monkeypatch) -> None:
    made = handed(homes, monkeypatch)
    torch.compiler.load_cache_artifacts(made)
    for name in ("live", "frozen"):
        compile_and_check(name)
        assert (anabranch.counters.compiles, anabranch.counters.cache_hits) == (0, 1)
    compile_and_check("views")
    assert anabranch.counters.compiles == 1


def test_a_damaged_package_is_compiled_again(homes, monkeypatch) -> None:
    made = handed(homes, monkeypatch)
    torch.compiler.load_cache_artifacts(made)
    for path in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-600])
    compile_and_check("live")
    assert anabranch.counters.compiles == 1


SCRIPT = """
import sys, torch
with open(sys.argv[1], "rb") as file:
    assert torch.compiler.load_cache_artifacts(file.read()) is not None
from saved_cases import CASES
case = CASES["frozen"]
made = case.function()
compiled = torch.compile(made, backend="anabranch", options=case.options)
with torch.no_grad():
    torch.testing.assert_close(case.call(compiled, compiled), case.call(made, made))
import anabranch
assert (anabranch.counters.compiles, anabranch.counters.cache_hits) == (0, 1)
"""


def test_a_process_loads_the_bytes_before_it_knows_anabranch(
    homes, monkeypatch
) -> None:
    (homes / "bytes").write_bytes(handed(homes, monkeypatch))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(homes / "bytes")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
