"""anabranch.extension: its names are enough to write a front end."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx

import anabranch
from anabranch import extension, location
from anabranch.capture import aot

PAGE = Path(__file__).resolve()
while not (PAGE / "docs" / "design").is_dir():
    PAGE = PAGE.parent
PAGE = PAGE / "docs" / "design" / "extension.md"


def front_end(seen=None, options=None, **hooks):
    """A Dynamo backend that hands each ATen graph to `seen` before it is compiled."""
    config = extension.configure(options or {})

    def compile_one(module, example_inputs, sources):
        if seen is not None:
            seen(module, sources)
        return extension.compile_graph(
            module, example_inputs, sources, config=config, **hooks
        )

    def backend(module, example_inputs):
        return extension.trace(
            module, example_inputs, compile_one, freeze=config.freeze
        )

    return backend


def compiled(function, backend, *inputs, **how):
    torch._dynamo.reset()
    result = torch.compile(function, backend=backend, **how)(*inputs)
    torch.testing.assert_close(result, function(*inputs))
    return result


def test_every_name_is_documented() -> None:
    page = PAGE.read_text()
    for name in extension.__all__:
        value = getattr(extension, name)
        assert re.search(rf"`{name}`", page), f"{name} is not in {PAGE.name}"
        if inspect.isfunction(value) or inspect.isclass(value):
            assert inspect.getdoc(value), name


def test_every_name_has_one_home() -> None:
    """The modules of the door publish the names that the door lists for them."""
    homes = {
        module.name: importlib.import_module(f"{extension.__name__}.{module.name}")
        for module in pkgutil.iter_modules(extension.__path__)
    }
    published = {name: sorted(home.__all__) for name, home in homes.items()}
    assert published == {
        name: sorted(names) for name, names in extension._HOMES.items()
    }
    assert len(set(extension.__all__)) == len(extension.__all__)
    assert set(extension.__all__) <= set(dir(extension))


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="'anabranch.extension' has no attribute"):
        getattr(extension, "compile_grahp")  # noqa: B009 - a name that mypy refuses


def test_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_options_are_checked() -> None:
    assert extension.configure({"threads": 3}).threads == 3
    with pytest.raises(ValueError, match="unknown option 'treads'"):
        extension.configure({"treads": 3})


def test_inputs_have_sources() -> None:
    kinds = []

    def seen(_, sources) -> None:
        kinds.extend((source.kind, source.constant is not None) for source in sources)

    model = nn.Linear(4, 3).eval()
    with torch.no_grad():
        compiled(model, front_end(seen), torch.randn(2, 4))
        assert sorted(kinds) == [
            ("input", False),
            ("parameter", False),
            ("parameter", False),
        ]
        kinds.clear()
        compiled(model, front_end(seen, {"freeze": True}), torch.randn(2, 4))
    assert kinds.count(("parameter", True)) == 2


def test_marks_reach_the_program() -> None:
    listings = []

    def seen(module, _) -> None:
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.mm.default:
                extension.set_marks(node, extension.Marks(stream="products"))
                assert extension.stream_of(node) == "products"

    backend = front_end(
        seen, on_package=lambda folder: listings.append(extension.list_program(folder))
    )
    x = torch.randn(8, 8)
    compiled(lambda x: torch.mm(x, x) + x.exp(), backend, x)
    assert "products" in listings[0]


def test_marks_of_super_kernels_can_be_dropped() -> None:
    node = torch.fx.Graph().placeholder("x")
    marks = extension.Marks("s", 2, "unit", "stream-fusion=1")
    extension.set_marks(node, marks)
    extension.drop_super_kernel(node)
    left = node.meta["custom"]
    extension.set_marks(node, extension.Marks(stream="s", cores=2))
    assert node.meta["custom"] == left
    assert extension.stream_of(node) == "s"
    assert extension.stream_of(torch.fx.Graph().placeholder("y")) is None


def test_options_of_super_kernels() -> None:
    assert extension.read_super_kernel_option("stream-fusion = 1") == (
        "stream-fusion",
        "1",
    )
    with pytest.raises(ValueError, match="there is no option"):
        extension.read_super_kernel_option("fusion=1")
    assert "strict-scope-check" in extension.SUPER_KERNEL_OPTIONS


def test_waits() -> None:
    """A wait for an input is no error: the input is there already."""
    found = []

    def seen(module, _) -> None:
        for node in module.graph.nodes:
            if extension.is_wait_result(node):
                found.append("result")
            elif node.op == "call_function" and node.target is extension.WAIT:
                assert extension.is_order_operator(node.target)
                found.append("wait")

    def function(x, y):
        return extension.wait_if_computed(x * 2, y) + 1

    x = torch.randn(4)
    result = torch.compile(function, backend=front_end(seen))(x, torch.ones(4))
    torch.testing.assert_close(result, x * 2 + 1)
    assert found == ["wait", "result"]
    assert not extension.is_order_operator(torch.ops.aten.add.Tensor)


def test_user_lines(tmp_path) -> None:
    lines = []

    def seen(module, _) -> None:
        for node in module.graph.nodes:
            if node.op == "call_function":
                lines.append((extension.find_user_line(node), node))

    x = torch.randn(4)
    compiled(lambda x: x.sin() * 2, front_end(seen), x)
    line, node = lines[0]
    assert line is not None
    assert line.file == __file__
    assert extension.user_line(node).startswith(f"{__file__}:{line.line}, in ")
    blank = torch.fx.Graph().placeholder("x")
    assert extension.find_user_line(blank) is None
    assert extension.user_line(blank) == ""


def test_hidden_frames(monkeypatch) -> None:
    node = torch.fx.Graph().placeholder("x")
    frames = ('  File "/a/user.py", line 3, in f', '  File "/b/layer.py", line 5, in g')
    node.meta["stack_trace"] = "\n    x\n".join([*frames, ""])
    found = extension.find_user_line(node)
    assert found is not None and found.file == "/b/layer.py"
    monkeypatch.setattr(location, "_HIDDEN", [*location._HIDDEN])
    extension.hide_frames("/b/layer.py")
    found = extension.find_user_line(node)
    assert found == extension.UserLine("/a/user.py", 3, "f", "x")


def test_gears() -> None:
    found = []

    def backend(module, example_inputs):
        gears = extension.find_gears(module, example_inputs)
        found.extend((gear.dim, gear.sizes) for gear in gears)
        assert [extension.size_hint(gear.size) for gear in gears] == [2]
        extension.guard_gears(module, example_inputs, gears)
        return extension.trace(
            module,
            example_inputs,
            lambda graph, inputs, sources: extension.compile_graph(
                graph,
                inputs,
                sources,
                config=extension.configure({}),
                gears=gears,
            ),
        )

    x = torch.randn(2, 3)
    extension.attach_gears(x, {0: [2, 4]})
    torch._dynamo.reset()
    function = torch.compile(lambda x: x * 2, backend=backend)
    for rows in (x, torch.randn(4, 3)):
        torch.testing.assert_close(function(rows), rows * 2)
    assert found == [(0, (2, 4))]


def test_operators_with_kernels() -> None:
    lowered = extension.lowered_operators()
    assert "aten.add.Tensor" in lowered
    assert not any(name.startswith("aten.aten") for name in lowered)


def test_exact_shapes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    exact = extension.ExactShapes(extension.configure({}))
    x = torch.randn(6, 4)
    backend = front_end(on_executable=exact.on_executable)
    compiled(lambda x: x.exp() + 1, backend, x, dynamic=True)
    programs = exact._executable.programs
    arguments = [6, 4, x][-exact._described.arguments :]
    with exact.compile(arguments, ["a record"]) as made:
        assert made is not None and os.path.isdir(made.folder)
        extension.copy_package(made, str(tmp_path / "copy"))
    assert exact._executable.programs == programs + 1
    assert (tmp_path / "copy" / "manifest.json").exists()


def test_exact_shapes_of_what_pytorch_runs() -> None:
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    exact = extension.ExactShapes(extension.configure({}))
    exact.describe(module, [extension.InputSource("x")])
    with exact.compile([torch.randn(3)], []) as made:
        assert made is None


def test_whole_operators() -> None:
    """Composite operators stay whole in graphs, and in traces of their own parts."""
    weight = torch.randn(3, 4)
    linear = torch.ops.aten.linear.default
    with torch.no_grad(), extension.traced_whole(), enable_python_dispatcher():
        module = make_fx(
            lambda x: torch.nn.functional.linear(x, weight),
            decomposition_table=extension.decompositions(),
        )(torch.randn(2, 4))
    assert [n for n in module.graph.nodes if n.target is linear]


class Saved(extension.CachePolicy):
    """The policy of a method in a folder of the test."""

    folder = ""

    def place(self, key: str) -> str:
        return self.folder


class Doubling(nn.Module):
    def method(self, x):
        return x * 2


def test_cached_method(tmp_path) -> None:
    model = Doubling().eval()
    policy = Saved(
        extension.check_method(model.method), config=anabranch.Config(), dynamic=False
    )
    policy.folder = str(tmp_path / "entry")
    x = torch.randn(3)
    torch.testing.assert_close(extension.CachedMethod(policy).callable()(x), x * 2)
    text = extension.readable_cache(policy.folder, print_output=False)
    assert "Doubling.method" in text
    with pytest.raises(ValueError, match="Only method can be cached now"):
        extension.check_method(len)


def test_digests_of_code() -> None:
    def one(x):
        return x + 1

    def other(x):
        return x + 1

    def third(x):
        return x + 2

    assert extension.code_digest(one) == extension.code_digest(other)
    assert extension.code_digest(one) != extension.code_digest(third)
    assert extension.code_digest(len) != extension.code_digest(print)


def test_eager_runs_by_the_boxed_convention() -> None:
    module = torch.fx.symbolic_trace(lambda x: (x + 1,))
    arguments = [torch.zeros(2)]
    (result,) = extension.run_eagerly(module)(arguments)
    assert not arguments
    assert result.tolist() == [1.0, 1.0]


def test_operators_of_a_front_end_need_no_functionalization(monkeypatch) -> None:
    kept: list[torch.Tensor] = []

    def note(x: torch.Tensor, amount: int) -> torch.Tensor:
        kept.append(x.clone())
        return x + amount

    schema = "extension_test::note(Tensor x, int amount) -> Tensor"
    extension.define_operator(schema, note, lambda x, _: torch.empty_like(x))
    hows: list[dict] = []
    trace = aot._trace
    monkeypatch.setattr(
        aot, "_trace", lambda *a, **how: hows.append(how) or trace(*a, **how)
    )

    def model(x):
        return torch.ops.extension_test.note.default(x * 2, 3).relu()

    x = torch.randn(3, 4)
    with torch.no_grad():
        found = torch.compile(model, backend=anabranch.anabranch)(x)
    torch.testing.assert_close(found, (x * 2 + 3).relu())
    torch.testing.assert_close(kept, [x * 2])
    assert hows == [{"disable_functionalization": True}]
