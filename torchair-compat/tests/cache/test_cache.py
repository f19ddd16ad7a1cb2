"""torchair.inference.cache_compile: names of folders, texts in them, rules of a cache."""

import dataclasses
import json
import logging
import os
import re
from pathlib import Path

import pytest
import torch

import guide
import torchair
from anabranch.packages import cache
from programs import run_python
from torchair.inference import cache_compile, readable_cache


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.register_buffer("offset", torch.ones(4))

    def method(self, x):
        return self.fc(x) + self.offset

    def other(self, x):
        return self.fc(x) - 1


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())
    torchair.logger.setLevel(logging.INFO)
    return tmp_path / "home"


def modules(root: Path) -> list[Path]:
    return sorted(root.rglob("compiled_module"))


def only(root: Path) -> Path:
    (found,) = modules(root)
    return found


def cached(model=None, name="method", **keywords):
    torch._dynamo.reset()
    model = Model() if model is None else model
    return model, cache_compile(getattr(model, name), **keywords)


def check(model, function, x=None, name="method"):
    x = torch.ones(2, 3) if x is None else x
    with torch.no_grad():
        wanted = getattr(model, name)(x)
    torch.testing.assert_close(function(x), wanted)


def names(path: Path, root: Path) -> list[str]:
    return list(path.relative_to(root).parts)


@pytest.mark.checklist("T078")
@pytest.mark.parametrize(
    ("mode", "dynamic", "ge_cache", "pattern"),
    [
        ("max-autotune", True, False, "dynamic"),
        ("max-autotune", False, False, "static"),
        ("max-autotune", True, True, "dynamic_gecache"),
        ("reduce-overhead", False, False, "static_aclgraphcache"),
    ],
)
def test_folder_names(home, config, mode, dynamic, ge_cache, pattern) -> None:
    config.mode = mode
    model, function = cached(config=config, dynamic=dynamic, ge_cache=ge_cache)
    assert not home.exists()
    check(model, function)
    folder, method, file = names(only(home), home)
    assert re.fullmatch(f"Model_{pattern}_[0-9a-f]{{32}}", folder)
    assert (method, file) == ("method", "compiled_module")
    assert only(home).stat().st_mode & 0o7777 == 0o600


@pytest.mark.checklist("T079")
def test_ranks(home, monkeypatch) -> None:
    model, function = cached(tp_rank=3, pp_rank=1)
    check(model, function)
    assert names(only(home), home)[1] == "tp_rank3_pp_rank1"
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    check(*cached(model, global_rank=0, tp_rank=0, pp_rank=1))
    found = {names(path, home)[1] for path in modules(home)}
    assert found == {"tp_rank3_pp_rank1", "world2global_rank0_tp_rank0_pp_rank1"}
    check(*cached(model))
    found = {names(path, home)[1] for path in modules(home)}
    assert "world2global_rank1" in found


@pytest.mark.checklist("T080")
def test_which_root(home, tmp_path, monkeypatch) -> None:
    model, function = cached(cache_dir=str(tmp_path / "given"))
    check(model, function)
    assert modules(tmp_path / "given")
    assert not home.exists()
    monkeypatch.delenv("TORCHAIR_CACHE_HOME")
    monkeypatch.chdir(tmp_path)
    check(*cached(model))
    assert modules(tmp_path / ".torchair_cache")


@pytest.mark.checklist("T081")
def test_hit_compiles_nothing(home, monkeypatch, capsys) -> None:
    model, function = cached()
    check(model, function)
    path = only(home)
    said = capsys.readouterr().out
    assert f"Saving cache for Model.method to {path}" in said
    assert f"Cache Model.method saved to {path}" in said
    monkeypatch.setattr(torch, "compile", None)
    again, function = cached(Model())
    check(again, function)
    check(again, function, torch.ones(5, 3))
    said = capsys.readouterr().out
    assert f"Loading cache from {path}" in said
    assert f"Cache Model.method loaded from {path}" in said


@pytest.mark.checklist("T083")
def test_two_methods(home) -> None:
    model = Model()
    check(*cached(model))
    check(model, cache_compile(model.other), name="other")
    first, second = (names(path, home) for path in modules(home))
    assert first[0] == second[0]
    assert {first[1], second[1]} == {"method", "other"}


@pytest.mark.checklist("T084")
def test_recompilation_drops_the_cache(home) -> None:
    class Flag(torch.nn.Module):
        def method(self, x, flag):
            return x + 1 if flag else x * 2

    function = cached(Flag())[1]
    x = torch.ones(3)
    function(x, True)
    assert only(home)
    gist = r"Skip cache as .*Flag.method recompiled, set torch._logging.set_logs\("
    with pytest.warns(UserWarning, match=gist):
        torch.testing.assert_close(function(x, False), x * 2)
    assert not modules(home)
    torch.testing.assert_close(function(x, True), x + 1)


@pytest.mark.checklist("T085")
def test_bad_arguments(config) -> None:
    class Plain:
        def method(self, x):
            return x

    with pytest.raises(ValueError, match="Only method can be cached now, got"):
        cache_compile(test_bad_arguments)
    gist = "Only torch.nn.Module method can be cached now, got"
    with pytest.raises(ValueError, match=gist):
        cache_compile(Plain().method)
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    with pytest.raises(ValueError, match="config in current backend is different"):
        cache_compile(Model().method, config=config, backend=backend)
    cache_compile(Model().method, backend=backend)


def test_foreign_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match=r"must be owned by the current user "):
        cache_compile(Model().method, cache_dir=str(tmp_path))
    cache_compile(Model().method, cache_dir=str(tmp_path / "new"))


@pytest.mark.checklist("T086", "T087")
@pytest.mark.parametrize("damage", ["mode", "bytes", "short", "version", "source"])
def test_broken_caches_are_cleared(home, damage, capsys, monkeypatch) -> None:
    model, function = cached()
    check(model, function)
    path = only(home)
    if damage == "mode":
        path.chmod(0o644)
    elif damage == "bytes":
        path.write_bytes(path.read_bytes()[:-90] + b"x" * 90)
    elif damage == "short":
        path.write_bytes(b"")
    elif damage == "version":
        monkeypatch.setattr(torch, "__version__", "1.0")
    else:
        code = Model.other.__code__.replace(co_name="method")
        monkeypatch.setattr(Model.method, "__code__", code)
    capsys.readouterr()
    check(*cached(model))
    said = capsys.readouterr().out
    assert f"Clear broken cache {path} as " in said
    assert "saved to" in said
    check(*cached(model))
    assert "loaded from" in capsys.readouterr().out


@pytest.mark.checklist("T088")
def test_random_numbers() -> None:
    class Random(torch.nn.Module):
        def method(self, x):
            return x + torch.randn_like(x)

    gist = "Cache compile does not support operator that depend on RNG, input index: 2"
    with pytest.raises(Exception, match=gist):
        cached(Random())[1](torch.ones(3))


@pytest.mark.checklist("T089")
def test_gradients_are_not_asked_for(home) -> None:
    function = cached()[1]
    x = torch.ones(2, 3, requires_grad=True)
    assert not function(x).requires_grad
    assert torch.is_grad_enabled()
    assert only(home)


@pytest.mark.checklist("T090")
def test_sizes_of_the_first_call(home) -> None:
    class Static(torch.nn.Module):
        def method(self, x, y):
            return x + 1, y + 1

    model, function = cached(Static(), dynamic=False)
    function(torch.ones(3), torch.ones(2, 0))
    function = cached(model, dynamic=False)[1]
    with pytest.raises(
        AssertionError, match="expected size 12==3, stride 1==1 at dim=0"
    ):
        function(torch.ones(12), torch.ones(2, 0))
    function(torch.ones(3), torch.ones(2, 0))
    with pytest.raises(ValueError, match="argument"):
        function(torch.ones(12), torch.ones(2, 0))


@pytest.mark.checklist("T090")
def test_sizes_of_the_first_call_by_expression(home) -> None:
    model, function = cached()
    check(model, function)
    function = cached(model)[1]
    with pytest.raises(AssertionError, match=r"stride 1==3 at dim=0"):
        function(torch.ones(3, 7).t())
    check(model, function, torch.ones(7, 3))


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    number: int


@pytest.mark.checklist("T082", "T091")
def test_arguments_of_every_kind(home, monkeypatch) -> None:
    class Kinds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tensors = [torch.ones(2), torch.full((2,), 3.0)]

        def method(self, x, *, pair, nested=None, **more):
            x.add_(1)
            y = x * self.tensors[1] + nested["a"][0] + more["z"]
            return Pair(y + pair.left, x.shape[0]), x, x[1:]

    def call(function):
        x = torch.ones(3, 2)
        pair = Pair(torch.ones(2), 2)
        out, same, part = function(
            x, pair=pair, nested={"a": (torch.ones(2),)}, z=torch.ones(2)
        )
        assert same is x
        assert part.data_ptr() == x[1:].data_ptr()
        return out.left, out.number, x

    model, function = cached(Kinds())
    with torch.no_grad():
        wanted = call(model.method)
    torch.testing.assert_close(call(function), wanted)
    monkeypatch.setattr(torch, "compile", None)
    torch.testing.assert_close(call(cached(model)[1]), wanted)


@pytest.mark.checklist("T092")
def test_custom_decompositions(home) -> None:
    class Tanh(torch.nn.Module):
        def method(self, x):
            return torch.tanh(x)

    table = {torch.ops.aten.tanh.default: lambda x: x + 7}
    x = torch.zeros(3)
    for _ in range(2):
        function = cached(Tanh(), custom_decompositions=table)[1]
        torch.testing.assert_close(function(x), x + 7)


@pytest.mark.checklist("T093")
def test_ge_cache(home, monkeypatch, capsys, config) -> None:
    model, function = cached(ge_cache=True)
    check(model, function)
    folder = only(home).parent
    (graph,) = folder.glob("graph_*_*.om")
    (index,) = folder.glob("graph_*.idx")
    (row,) = json.loads(index.read_text())["cache_file_list"]
    assert row["cache_file_name"] == graph.name
    assert graph.name.startswith(f"graph_{row['graph_key']}_")
    monkeypatch.setattr(torch, "compile", None)
    check(*cached(model, ge_cache=True))
    monkeypatch.undo()
    config.mode = "reduce-overhead"
    torchair.logger.setLevel(logging.WARNING)
    capsys.readouterr()
    cached(model, config=config, ge_cache=True)
    gist = "Ge_cache will not take effect when config.mode is set to reduce-overhead."
    assert gist in capsys.readouterr().out


def test_options_that_are_not_kept(home, config, tmp_path) -> None:
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = str(tmp_path / "values")
    model, function = cached(config=config)
    with pytest.warns(UserWarning, match="Skip cache as compiler .* non-str"):
        check(model, function)
    assert not home.exists()


@pytest.mark.checklist("T097")
def test_changed_weights_are_used(home, monkeypatch) -> None:
    check(*cached(Model()))
    monkeypatch.setattr(torch, "compile", None)
    model, function = cached(Model())
    check(model, function)
    with torch.no_grad():
        model.fc.weight.zero_()
    check(model, function)


@pytest.mark.checklist("T094")
def test_readable(home, capsys, tmp_path) -> None:
    check(*cached())
    path = only(home)
    out = tmp_path / "out.py"
    capsys.readouterr()
    text = readable_cache(str(path), file=str(out))
    assert capsys.readouterr().out == text + "\n"
    for section in ("graph module", "inputs", "compile options", "caller frame"):
        assert section in text
    assert re.search(r"\d:\S+ Parameter\(fc\.weight\)", text)
    assert re.search(r"\d:\S+ Buffer\(offset\)", text)
    assert "UserInput(0)" in text
    assert "Model.method(self, x)" in text
    lines = out.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert "def forward" in out.read_text()
    assert out.stat().st_mode & 0o7777 == 0o600
    assert readable_cache(str(path), print_output=False) == text
    assert capsys.readouterr().out == ""


@pytest.mark.checklist("T094")
def test_readable_refuses(home, tmp_path) -> None:
    check(*cached())
    path = only(home)
    link = tmp_path / "link"
    link.symlink_to(path)
    for wrong in (tmp_path / "none", link):
        with pytest.raises(ValueError, match="no cached function"):
            readable_cache(str(wrong), print_output=False)
    out = tmp_path / "out"
    out.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"):
        readable_cache(str(path), print_output=False, file=str(out))
    path.chmod(0o644)
    with pytest.raises(PermissionError):
        readable_cache(str(path), print_output=False)


def run_page(folder: Path, before: str = "") -> str:
    """Runs the page's script as a program. `before` runs first, in the same process."""
    run = "import runpy; runpy.run_path('script.py', run_name='__main__')"
    return run_python("-c", before + run, cwd=folder).stdout


@pytest.mark.checklist("T098")
@pytest.mark.parametrize(
    ("script", "count"), [(guide.cache_script, 1), (guide.prefill_script, 2)]
)
def test_the_page_s_scripts_over_two_processes(home, tmp_path, script, count) -> None:
    """The scripts run as the page has them, with its two misprints corrected. The second
    process compiles nothing."""
    (tmp_path / "script.py").write_text(script(), encoding="utf-8")
    first = run_page(tmp_path)
    assert len(modules(home)) == count
    assert run_page(tmp_path, guide.NO_COMPILER) == first


GEARS = """
import torch
import torchair
from torchair.inference import cache_compile, set_dim_gears


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.cached = cache_compile(self._forward, config=torchair.CompilerConfig())

    def forward(self, x):
        return self.cached(x)

    def _forward(self, x):
        return torch.relu(self.linear(x))


torch.manual_seed(0)
model = Model()
with torch.no_grad():
    for rows in (2, 4, 2):
        x = torch.randn(rows, 4)
        set_dim_gears(x, {0: [2, 4]})
        torch.testing.assert_close(model(x), torch.relu(model.linear(x)))
import anabranch
print(anabranch.counters.kernels)
"""


@pytest.mark.checklist("T073")
def test_gears_come_from_the_cache(home, tmp_path) -> None:
    """The second process, which has no compiler, runs both sizes."""
    (tmp_path / "script.py").write_text(GEARS, encoding="utf-8")
    first = run_page(tmp_path)
    assert first == run_page(tmp_path, guide.NO_COMPILER) == "2\n"
    assert len(modules(home)) == 1
