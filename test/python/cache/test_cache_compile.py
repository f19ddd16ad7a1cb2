"""`cache_compile`: a later process runs a method from the cache, without Dynamo."""

import dataclasses
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from pathlib import Path

import pytest
import script_server
import torch

import anabranch
from anabranch import _C, cli
from anabranch.method_cache import recording
from anabranch.method_cache.entry_text import readable_cache
from anabranch.packages import cache

SCALE = torch.tensor(2.0)


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    number: int


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "home"


def functions(home: Path) -> list[dict]:
    return [e for e in _C.cache_entries(str(home)) if e["kind"] == "functions"]


class Traced(Exception):
    """Raised if Dynamo is called in a replay."""


@pytest.fixture
def no_dynamo(monkeypatch):
    """Makes any further compilation an error."""

    def start():
        def refuse(*_, **__):
            raise Traced

        monkeypatch.setattr(torch, "compile", refuse)

    return start


def both(make, call, no_dynamo, later=()):
    """Calls `call(module, cached)` on modules of `make()`: first the method is compiled,
    then it is read from the cache. Asserts that both results equal eager's."""
    torch.manual_seed(0)
    module = make()
    with torch.no_grad():
        wanted = call(module, module.method)
    first = call(module, anabranch.cache_compile(module.method))
    no_dynamo()
    read = anabranch.cache_compile(module.method)
    second = call(module, read)
    torch.testing.assert_close(first, wanted)
    torch.testing.assert_close(second, wanted)
    return read


class Arguments(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.tensors = [torch.ones(4), torch.full((4,), 2.0)]
        self.register_buffer("bias", torch.arange(4.0))

    def method(self, x, pair, /, scale, *, extra=None, **more):
        y = self.fc(x) + self.tensors[1] + self.bias
        y = y * scale + pair.left * pair.number
        if extra is not None:
            y = y + extra["list"][0][1]
        return {"sum": y + more["far"], "nested": ([y], x.shape[0])}


def test_arguments_of_every_kind(no_dynamo, home) -> None:
    x, pair = torch.randn(3, 4), Pair(torch.randn(4), 5)
    extra = {"list": [(0, torch.randn(4))]}

    def call(_, function):
        return function(x, pair, 3, extra=extra, far=torch.ones(4))

    both(Arguments, call, no_dynamo)
    assert len(functions(home)) == 1


class DataclassOut(torch.nn.Module):
    def method(self, x):
        return Pair(x * SCALE, x.shape[0])


def test_dataclass_out(no_dynamo) -> None:
    def call(_, function):
        out = function(torch.arange(6.0).view(3, 2))
        assert type(out) is Pair
        return out.left, out.number

    both(DataclassOut, call, no_dynamo)


def test_modules_that_dynamo_refers_to_by_number(no_dynamo) -> None:
    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(
                layer, 2, enable_nested_tensor=False
            )

        def method(self, x):
            return self.encoder(x) * 2

    both(lambda: Encoder().eval(), lambda _, f: f(torch.ones(2, 3, 16)), no_dynamo)


def closing() -> torch.nn.Module:
    kept = torch.full((2,), 7.0)

    class Closing(torch.nn.Module):
        def method(self, x):
            return x + kept

    return Closing()


def test_closure(no_dynamo) -> None:
    both(closing, lambda _, f: f(torch.ones(3, 2)), no_dynamo)


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def method(self, x, y):
        self.state.add_(1)
        x.mul_(2)
        return x + y, x, y[1:]


def test_in_place_and_outputs_that_are_inputs(no_dynamo) -> None:
    def call(module, function):
        module.state.zero_()
        x, y = torch.ones(4, 4), torch.arange(16.0).view(4, 4)[:, :4]
        total, same, part = function(x, y)
        assert same is x
        assert part.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        return total, x, part, part.storage_offset(), module.state.clone()

    both(InPlace, call, no_dynamo)


class Views(torch.nn.Module):
    def method(self, x):
        y = x + 1
        return x[1:4, 1:4].T, y, torch.view_as_complex(y.view(-1, 2)), x.view(-1)


def test_views_are_of_the_argument(no_dynamo) -> None:
    def call(_, function):
        found = []
        for size in (5, 6):
            x = torch.arange(size * 4.0).view(size, 4)
            part, y, transposed, flat = function(x)
            assert flat.data_ptr() == x.data_ptr()
            assert part.untyped_storage().data_ptr() == x.data_ptr()
            found += [part, y, transposed, flat, part.stride(), part.storage_offset()]
        return found

    both(Views, call, no_dynamo)


class Complexes(torch.nn.Module):
    def method(self, x):
        return torch.view_as_complex(x), x * 2


def test_view_of_another_dtype(no_dynamo) -> None:
    def call(_, function):
        x = torch.randn(7, 3, 2, generator=torch.Generator().manual_seed(1))
        transposed, twice = function(x[2:])
        assert transposed.data_ptr() == x[2:].data_ptr()
        return transposed, twice

    both(Complexes, call, no_dynamo)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.prefill = anabranch.cache_compile(self._prefill)
        self.decode = anabranch.cache_compile(self._decode)
        self.late = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.prefill(x) if x.size(1) > 1 else self.decode(x)

    def _prefill(self, x):
        return self.late(self.fc(x)).relu()

    def _decode(self, x):
        return self.late(self.fc(x)).tanh()


def test_two_methods_made_in_init(no_dynamo, home) -> None:
    torch.manual_seed(0)
    model = Two().eval()
    long, short = torch.randn(2, 5, 8), torch.randn(2, 1, 8)
    with torch.no_grad():
        wanted = [model._prefill(long), model._decode(short), model._prefill(long)]
    for _ in range(2):
        found = [model(long), model(short), model(long)]
        torch.testing.assert_close(found, wanted)
        assert not any(t.requires_grad for t in found)
        state = model.state_dict()
        model = Two().eval()
        model.load_state_dict(state)
        no_dynamo()
    assert len(functions(home)) == 2


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.factor = 3

    def method(self, x):
        return self.fc(x) * self.factor


def test_live_weights_are_used(no_dynamo) -> None:
    read = both(Weights, lambda _, f: f(torch.ones(2, 4)), no_dynamo)
    module = read._cached_method.policy.method.__self__
    x = torch.ones(2, 4)
    with torch.no_grad():
        module.fc.weight.zero_()
        torch.testing.assert_close(read(x), module.method(x))
        module.fc = torch.nn.Linear(4, 4)
        torch.testing.assert_close(read(x), module.method(x))


def test_frozen_weights_must_be_the_same(home) -> None:
    config = anabranch.Config(freeze=True)
    x = torch.ones(2, 4)

    def run(module):
        torch._dynamo.reset()
        result = anabranch.cache_compile(module.method, config=config)(x)
        with torch.no_grad():
            torch.testing.assert_close(result, module.method(x))
        return anabranch.last_report().get("cache") == "hit"

    module = Weights()
    assert not run(module)
    assert run(module)
    with torch.no_grad():
        module.fc.bias.add_(1)
    assert not run(module)
    assert run(module)


def test_attributes_that_were_constant_must_be_the_same() -> None:
    module = Weights()
    x = torch.ones(2, 4)
    for factor in (3, 3, 5):
        torch._dynamo.reset()
        module.factor = factor
        result = anabranch.cache_compile(module.method, dynamic=False)(x)
        with torch.no_grad():
            torch.testing.assert_close(result, module.method(x))


FACTOR = 2


class Watched(torch.nn.Module):
    """A model whose attributes the trace takes for constants."""

    shift = 1.0

    def __init__(self):
        super().__init__()
        self.inner = Weights()
        self.register_buffer("bias", torch.arange(4.0))

    def method(self, x, flag=True, *more, scale=1, **words):
        y = self.inner.method(x) * FACTOR + self.shift + self.bias
        y = y * scale if flag else y - scale
        y = torch.tanh(y) if self.training else y
        return y * words.get("last", 1) * (more[0] if more else 1)


def set_factor(_):
    global FACTOR
    FACTOR = 5


CHANGES = {
    "attribute": lambda m: setattr(m.inner, "factor", 7),
    "flag": lambda m: m.eval(),
    "of the class": lambda m: setattr(m, "shift", 4.0),
    "global": set_factor,
    "type": lambda m: setattr(m.inner, "factor", True),
}


@pytest.fixture
def loaded(monkeypatch):
    """A module whose method was read from the cache and called once."""
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2)
    module, x = Watched(), torch.ones(2, 4)
    for _ in range(2):
        torch._dynamo.reset()
        read = anabranch.cache_compile(module.method, dynamic=False)
        torch.testing.assert_close(read(x), module.method(x).detach())
    assert anabranch.last_report().get("cache") == "hit"
    return module, read, x


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_trace_saw_is_compared_at_every_call(loaded, change) -> None:
    module, read, x = loaded
    read(x)
    CHANGES[change](module)
    with pytest.warns(UserWarning, match=r"Watched.method recompiled"):
        found = read(x)
    torch.testing.assert_close(found, module.method(x).detach())
    torch.testing.assert_close(read(x + 1), module.method(x + 1).detach())


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((False,), {}),
        ((True,), {"scale": 3}),
        ((1,), {}),
        ((True, 2), {}),
        ((), {"last": 2}),
    ],
)
def test_arguments_that_were_constant_are_compared(loaded, args, kwargs) -> None:
    module, read, x = loaded
    torch.testing.assert_close(read(x, True, scale=1), module.method(x).detach())
    with pytest.warns(UserWarning, match=r"Watched.method recompiled"):
        found = read(x, *args, **kwargs)
    torch.testing.assert_close(found, module.method(x, *args, **kwargs).detach())


def test_what_is_not_looked_at_may_change(loaded, no_dynamo) -> None:
    module, read, x = loaded
    no_dynamo()
    for step in range(3):
        module.step = step
        module.inner.fc.weight.data = torch.randn(4, 4)
        module.inner.fc.bias = torch.nn.Parameter(torch.randn(4))
        module.bias = torch.randn(4)
        torch.testing.assert_close(read(x), module.method(x).detach())
    module.inner.fc = torch.nn.Linear(4, 4)
    torch.testing.assert_close(read(x), module.method(x).detach())


def test_modules_die_with_their_functions(home) -> None:
    for _ in range(2):
        torch._dynamo.reset()
        module = Watched()
        read = anabranch.cache_compile(module.method)
        read(torch.ones(2, 4))
    assert anabranch.last_report().get("cache") == "hit"
    inner = weakref.ref(module.inner)
    del module, read
    gc.collect()
    assert inner() is None


def test_a_part_that_is_gone_is_an_error(loaded) -> None:
    module, read, x = loaded
    del module.inner.fc
    with pytest.warns(UserWarning, match="recompiled"), pytest.raises(Exception):  # noqa: B017
        read(x)


def test_wrong_arguments_are_errors(no_dynamo) -> None:
    read = both(Weights, lambda _, f: f(torch.ones(2, 4)), no_dynamo)
    for wrong in (torch.ones(2, 5), torch.ones(4), torch.ones(2, 4).double()):
        with pytest.raises((ValueError, TypeError), match="argument"):
            read(wrong)
    read(torch.ones(3, 4))
    with pytest.raises(Traced):
        read(3)


class Branch(torch.nn.Module):
    def method(self, x, y):
        return x + y.sum() if x.shape[0] * 2 != y.shape[0] else x * 2


class Unused(torch.nn.Module):
    def method(self, x, y):
        return x + 1 if x.shape[0] * 2 != y.shape[0] else x * 2


def test_sizes_that_the_trace_is_not_for(no_dynamo) -> None:
    def call(_, function):
        return function(torch.ones(5), torch.ones(7))

    read = both(Branch, call, no_dynamo)
    with pytest.raises(AssertionError, match="traced for sizes with"):
        read(torch.ones(5), torch.ones(10))


def test_sizes_that_only_the_trace_read() -> None:
    x = torch.ones(5)
    for size, wanted in ((7, x + 1), (8, x + 1), (10, x * 2)):
        torch._dynamo.reset()
        read = anabranch.cache_compile(Unused().method)
        torch.testing.assert_close(read(x, torch.ones(size)), wanted)
    torch._dynamo.reset()
    read = anabranch.cache_compile(Unused().method)
    read(x, torch.ones(10))
    assert anabranch.last_report().get("cache") == "hit"
    with pytest.raises(ValueError, match="sizes other than"):
        read(x, torch.ones(7))


@pytest.mark.parametrize("what", ["function", "method"])
def test_only_methods_of_modules(what) -> None:
    class Plain:
        def method(self, x):
            return x

    function = test_only_methods_of_modules if what == "function" else Plain().method
    with pytest.raises(ValueError, match="method can be cached now, got"):
        anabranch.cache_compile(function)


class Random(torch.nn.Module):
    def method(self, x):
        return x + torch.rand_like(x)


def test_random_numbers_are_refused() -> None:
    with pytest.raises(Exception, match="depend on RNG, input index: 1"):
        anabranch.cache_compile(Random().method, dynamic=False)(torch.ones(3))


class Flag(torch.nn.Module):
    def method(self, x, flag):
        return x + 1 if flag else x * 2


def test_second_trace_drops_the_entry(home) -> None:
    cached = anabranch.cache_compile(Flag().method)
    x = torch.ones(3)
    torch.testing.assert_close(cached(x, True), x + 1)
    assert len(functions(home)) == 1
    with pytest.warns(UserWarning, match="Skip cache as .*Flag.method recompiled"):
        torch.testing.assert_close(cached(x, False), x * 2)
    assert not functions(home)
    torch.testing.assert_close(cached(x, True), x + 1)
    assert not functions(home)


class Refused(torch.nn.Module):
    def method(self, x):
        return torch.nonzero(x).expand(-1, 3)


def test_what_cannot_be_kept_runs(home) -> None:
    cached = anabranch.cache_compile(Refused().method)
    x = torch.tensor([0.0, 1.0])
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.warns(UserWarning, match="Skip cache as .*PyTorch runs it"),
    ):
        assert torch.equal(cached(x), torch.tensor([[1, 1, 1]]))
    assert not functions(home)


def test_under_no_grad_and_grad_mode_comes_back(no_dynamo) -> None:
    x = torch.ones(2, 4, requires_grad=True)
    read = both(Weights, lambda _, f: f(x), no_dynamo)
    assert torch.is_grad_enabled()
    assert not read(x).requires_grad
    with pytest.raises(ValueError, match="argument"):
        read(torch.ones(7, requires_grad=True))
    assert torch.is_grad_enabled()


def test_decompositions_are_used_and_part_of_the_key(home) -> None:
    def zero(x):
        return x * 0

    def one(x):
        return x * 0 + 1

    class Tanh(torch.nn.Module):
        def method(self, x):
            return torch.tanh(x)

    x = torch.ones(3)
    op = torch.ops.aten.tanh.default
    for function in (zero, one, zero):
        torch._dynamo.reset()
        table = {op: function}
        cached = anabranch.cache_compile(Tanh().method, custom_decompositions=table)
        torch.testing.assert_close(cached(x), function(x))
    assert len(functions(home)) == 2


@pytest.mark.parametrize(
    "change", ["none", "source", "torch", "python", "cpu", "config", "str"]
)
def test_what_makes_a_miss(home, monkeypatch, change) -> None:
    x = torch.ones(2, 4)
    module = Weights()
    anabranch.cache_compile(module.method)(x)
    torch._dynamo.reset()
    config = None
    if change == "source":
        Other = type("Weights", (Weights,), {"__module__": Weights.__module__})
        Other.__qualname__ = "Weights"

        def method(self, x):
            return self.fc(x) * self.factor + 1

        method.__qualname__ = "Weights.method"
        Other.method = method
        module = Other()
    elif change == "torch":
        monkeypatch.setattr(torch, "__version__", "0.0")
    elif change == "python":
        monkeypatch.setattr(sys, "version", "another")
    elif change == "cpu":
        monkeypatch.setattr(cache, "identity", lambda: ("another", "b", "c"))
    elif change == "config":
        config = anabranch.Config(threads=1)
    elif change == "str":
        module.fc = torch.nn.Linear(4, 4, bias=False)
    result = anabranch.cache_compile(module.method, config=config)(x)
    with torch.no_grad():
        torch.testing.assert_close(result, module.method(x))
    assert len(functions(home)) == (1 if change == "none" else 2)


@pytest.mark.parametrize(
    "name", ["code.bin", "entry.json", "kernels.so", recording.REPORT]
)
def test_broken_entries_are_compiled_anew(home, name) -> None:
    x = torch.ones(2, 4)
    module = Weights()
    anabranch.cache_compile(module.method)(x)
    path = Path(functions(home)[0]["folder"]) / name
    content = bytearray(path.read_bytes())
    for at in range(0, len(content), max(1, len(content) // 3)):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        torch._dynamo.reset()
        result = anabranch.cache_compile(module.method)(x)
        with torch.no_grad():
            torch.testing.assert_close(result, module.method(x))
        assert anabranch.last_report()["name"] != "Weights.method"


def test_recordings_of_another_version_are_compiled_anew(home, monkeypatch) -> None:
    x = torch.ones(2, 4)
    module = Weights()
    with monkeypatch.context() as patch:
        patch.setattr(recording, "VERSION", recording.VERSION - 1)
        anabranch.cache_compile(module.method)(x)
    torch._dynamo.reset()
    for is_read in (False, True):  # saved by the first call, read by the second
        result = anabranch.cache_compile(module.method)(x)
        with torch.no_grad():
            torch.testing.assert_close(result, module.method(x))
        report = anabranch.last_report()
        assert report is not None
        assert (report["name"] == "Weights.method") == is_read


def test_no_folder(home) -> None:
    home.write_text("a file")
    with pytest.warns(UserWarning, match="can't be used"):
        anabranch.cache_compile(Weights().method)(torch.ones(2, 4))


MODEL = """
import sys, torch, anabranch, json
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.cached = anabranch.cache_compile(self.method)
    def method(self, x):
        return self.fc(x) {change}
torch.manual_seed(0)
model = Model()
x = torch.ones(2, 4)
y = model.cached(x)
with torch.no_grad():
    torch.testing.assert_close(y, model.method(x))
maps = open("/proc/self/maps").read()
print(json.dumps(["torch._dynamo" in sys.modules, "anabranch_compiler" in maps]))
"""


def run(tmp_path: Path, change: str) -> list[bool]:
    script = tmp_path / "model.py"
    script.write_text(textwrap.dedent(MODEL.format(change=change)))
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_second_process_imports_no_dynamo(tmp_path) -> None:
    assert run(tmp_path, "") == [True, True]
    assert run(tmp_path, "") == [False, False]
    assert run(tmp_path, "+ 1") == [True, True]


def test_import_is_light() -> None:
    """A warm start must not import the modules that compiling needs."""
    code = "import anabranch.method_cache.cached_method, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    for name in ("torch._dynamo", "sympy", "torch._functorch.aot_autograd"):
        assert name not in done.stdout.split()


def test_nothing_is_said_on_a_hit(no_dynamo) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both(Weights, lambda _, f: f(torch.ones(2, 4)), no_dynamo)


class Rows(torch.nn.Module):
    def method(self, x):
        return torch.softmax(x, -1) + x.sum(0)


def test_gears_come_back_with_the_function(no_dynamo) -> None:
    def geared(rows):
        x = torch.arange(rows * 3.0).view(rows, 3).clone()
        anabranch.set_gears(x, {0: [2, 4]})
        return x

    def call(_, function):
        return [function(geared(2)), function(torch.ones(4, 3)), function(geared(4))]

    read = both(Rows, call, no_dynamo)
    with pytest.raises(RuntimeError, match="no program was compiled for the sizes"):
        read(torch.ones(3, 3))


@pytest.fixture
def filled(home) -> Path:
    x = torch.ones(2, 4)
    anabranch.cache_compile(Weights().method)(x)
    return home


def test_cli_lists_and_shows(filled, capsys) -> None:
    assert cli.main(["cache", "ls"]) == 0
    said = capsys.readouterr().out
    assert "Weights.method(self, x)" in said
    assert "2 entries of" in said
    assert cli.main(["cache", "ls", "--json"]) == 0
    assert {row["kind"] for row in json.loads(capsys.readouterr().out)} == {
        "functions",
        "packages",
        "objects",
    }
    key = functions(filled)[0]["key"]
    assert cli.main(["cache", "show", key[:10]]) == 0
    said = capsys.readouterr().out
    assert "## caller frame" in said
    compared = said.partition("## compared at a call")[2]
    assert "L['self']" in compared and f"{__file__} has the hash " in compared
    kinds = {row["kind"]: row["key"] for row in _C.cache_entries(str(filled))}
    assert cli.main(["cache", "show", kinds["packages"]]) == 0
    assert cli.main(["cache", "show", kinds["objects"]]) == 1
    assert cli.main(["cache", "show", "nothing"]) == 1
    assert "no entries" in capsys.readouterr().err


def test_cli_verifies_and_prunes(filled, capsys) -> None:
    assert cli.main(["cache", "verify"]) == 0
    count = len(_C.cache_entries(str(filled)))
    path = Path(functions(filled)[0]["folder"]) / "kernels.so"
    path.write_bytes(path.read_bytes()[1:])
    assert cli.main(["cache", "verify"]) == 1
    assert f"{count - 1} of {count} entries are whole" in capsys.readouterr().out
    assert cli.main(["cache", "verify", "--remove"]) == 0
    assert not functions(filled)
    assert cli.main(["cache", "prune"]) == 0
    assert cli.main(["cache", "prune", "--bytes", "-1"]) == 1
    assert len(_C.cache_entries(str(filled))) == count - 1
    assert cli.main(["cache", "prune", "--all"]) == 0
    assert not _C.cache_entries(str(filled))


def test_cli_exports_a_package(filled, tmp_path, capsys) -> None:
    key = functions(filled)[0]["key"]
    out = tmp_path / "package"
    assert cli.main(["cache", "export", key, str(out)]) == 0
    executable = _C.Executable(str(out), check_hashes=True)
    assert len(executable.outputs) == 1
    assert cli.main(["cache", "export", key, str(out)]) == 1
    assert "File exists" in capsys.readouterr().err


def test_readable_text(filled) -> None:
    folder = Path(functions(filled)[0]["folder"])
    for path in (folder, folder / "entry.json"):
        text = readable_cache(path, print_output=False)
        assert "Parameter(fc.weight)" in text
        assert "def forward" in text
    with pytest.raises(ValueError, match="no cached function"):
        readable_cache(folder / "none")


CRASHER = """
import os, signal, sys, threading, torch, anabranch
from anabranch.packages import cache
class Model(torch.nn.Module):
    def method(self, x):
        return torch.tanh(x) * 3
real = cache.Entry.publish
def publish(self, *arguments):
    threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGKILL)).start()
    done = real(self, *arguments)
    return done
cache.Entry.publish = publish
x = torch.ones(3)
anabranch.cache_compile(Model().method)(x)
"""


@pytest.mark.slow
def test_killed_while_publishing(home, tmp_path) -> None:
    """Whatever a killed process leaves, the next process computes the right result."""
    for delay in ("0", "0.0005", "0.002", "10"):
        status, said = script_server.run(tmp_path, CRASHER, delay)
        assert status in (0, -9), said
        for entry in _C.cache_entries(str(home)):
            _C.CacheEntry(entry["folder"]).read()
    assert len(functions(home)) == 1


def test_threads_share_the_first_call(home) -> None:
    module = Weights()
    function = anabranch.cache_compile(module.method)
    x = torch.ones(2, 4)
    found: list = []
    threads = [
        threading.Thread(target=lambda: found.append(function(x))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with torch.no_grad():
        wanted = module.method(x)
    assert len(found) == 4
    for value in found:
        torch.testing.assert_close(value, wanted)
    assert len(functions(home)) == 1
