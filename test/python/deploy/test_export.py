"""anabranch.export and anabranch.load: arguments, results, and refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves

import anabranch
from anabranch.trace.trace_file import read_trace


class Block(nn.Module):
    """A module that takes and returns values of every form."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 24)
        self.norm = nn.LayerNorm(24)
        self.register_buffer("scale", torch.rand(24))

    def forward(self, x, extras, mask=None, *, activation="gelu"):
        y = self.norm(self.linear(x)) * self.scale
        y = getattr(nn.functional, activation)(y) + extras["bias"]
        if mask is not None:
            y = y * mask
        return {"y": y, "parts": [y.t(), extras["pair"][0] + 1]}, x.shape[0], self.scale


class Cache(nn.Module):
    """A module that fills a buffer row by row, and writes to an argument."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, row, total):
        self.rows.copy_(torch.cat([self.rows[1:], row[None]]))
        self.seen += 1
        total.add_(row)
        return self.rows.sum(0), self.seen


def block_inputs(rows):
    return {
        "x": torch.randn(rows, 16),
        "extras": {"bias": torch.randn(24), "pair": (torch.randn(3), torch.randn(2))},
    }


def flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def as_numpy(value):
    if isinstance(value, dict):
        return {key: as_numpy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_numpy(item) for item in value)
    return value.numpy() if isinstance(value, torch.Tensor) else value


def assert_same(found, wanted):
    assert type(found) is type(wanted)
    for ours, theirs in zip(flat(found), flat(wanted), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(torch.as_tensor(ours), theirs)
        else:
            assert ours == theirs


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    torch.manual_seed(0)
    model = Block().eval()
    path = tmp_path_factory.mktemp("block") / "package"
    rows = Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows}, "extras": {"bias": None, "pair": (None, None)}}
    anabranch.export(model, path, block_inputs(5), dynamic_shapes=shapes)
    return model, path


@pytest.mark.parametrize("rows", [2, 5, 64])
def test_results_are_those_of_the_module(block, rows):
    model, path = block
    package = anabranch.load(path)
    inputs = block_inputs(rows)
    with torch.no_grad():
        wanted = model(**inputs)
    assert_same(package(**inputs), wanted)
    arrays = package(**as_numpy(inputs))
    assert isinstance(arrays[0]["y"], np.ndarray)
    assert_same(arrays, wanted)
    assert list(arrays[0]) == ["y", "parts"]


def test_names_are_in_the_manifest(block):
    package = anabranch.load(block[1])
    names = [info["name"] for info in package.inputs]
    assert names == ["x", "extras_bias", "extras_pair_0", "extras_pair_1"]
    assert [info["name"] for info in package.outputs][:2] == [
        "output0.y",
        "output0.parts.0",
    ]
    assert package.inputs[0]["shape"] == [-1, 16]
    assert package.target == "native"


def test_arguments_are_checked_before_anything_runs(block):
    package = anabranch.load(block[1])
    good = as_numpy(block_inputs(4))

    def refused(error, message, **changes):
        with pytest.raises(error, match=message):
            package(**good | changes)

    refused(
        ValueError, "65, but the program was made for 64", x=np.zeros((65, 16), "f4")
    )
    refused(ValueError, "the program was made for 2", x=np.zeros((1, 16), "f4"))
    refused(ValueError, "'x'", x=np.zeros((4, 17), "f4"))
    refused(TypeError, "expected dtype f32, got f64", x=np.zeros((4, 16)))
    refused(TypeError, "no program takes arrays of >f4", x=np.zeros((4, 16), ">f4"))
    refused(TypeError, "expected an array, got list", x=[[1.0]])
    refused(TypeError, "unknown argument 'y'", y=1)
    refused(TypeError, r"extras: expected a dict of bias, pair", extras={"bias": 1})
    refused(TypeError, "exported with None", mask=np.zeros(3, "f4"))
    refused(TypeError, "exported with 'gelu'", activation="relu")
    with pytest.raises(TypeError, match="'extras' is missing"):
        package(good["x"])
    with pytest.raises(TypeError, match="given twice"):
        package(good["x"], x=good["x"], extras=good["extras"])
    with pytest.raises(TypeError, match="at most 3 positional"):
        package(1, 2, 3, 4)
    assert package(**good, activation="gelu", mask=None)


def test_arrays_of_any_layout_are_read(block):
    package = anabranch.load(block[1])
    inputs = as_numpy(block_inputs(4))
    wanted = package(**inputs)
    transposed = np.asfortranarray(inputs["x"])
    found = package(**inputs | {"x": transposed})
    np.testing.assert_array_equal(found[0]["y"], wanted[0]["y"])
    read_only = inputs["x"].copy()
    read_only.flags.writeable = False
    package(**inputs | {"x": read_only})


def test_state_is_kept_and_sessions_have_their_own(tmp_path):
    model = Cache().eval()
    anabranch.export(model, tmp_path / "p", (torch.randn(8), torch.zeros(8)))
    package = anabranch.load(tmp_path / "p")
    other = package.session()
    eager = Cache().eval()
    for step in range(6):
        row = torch.randn(8)
        totals = [torch.full((8,), float(step)) for _ in range(3)]
        wanted = eager(row, totals[0])
        if step % 2:
            found = package(row, totals[1])
        else:
            found = [
                torch.as_tensor(v) for v in package(row.numpy(), totals[1].numpy())
            ]
        torch.testing.assert_close(found[0], wanted[0])
        assert int(found[1]) == step + 1
        torch.testing.assert_close(totals[1], totals[0])
    np.testing.assert_allclose(package.state["rows"], eager.rows.numpy())
    assert other.state["rows"].sum() == 0 and other.state["seen"] == 0
    other.state["rows"][...] = 1
    assert other(row, totals[2])[1] == 1
    assert package.state["seen"] == 6
    seen = package.state["seen"]
    package.state.reset()
    assert seen == 0 and not package.state["rows"].any()
    assert other.state["seen"] == 1
    assert sorted(package.state) == sorted(dict(package.state)) == ["rows", "seen"]


def test_what_is_written_is_never_a_copy(tmp_path):
    model = Cache().eval()
    anabranch.export(model, tmp_path / "p", (torch.randn(8), torch.zeros(8)))
    package = anabranch.load(tmp_path / "p")
    total = np.zeros(16, "f4")[::2]
    with pytest.raises(ValueError, match="total is written in place"):
        package(np.ones(8, "f4"), total)
    read_only = np.zeros(8, "f4")
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="total is written in place and is read-only"):
        package(np.ones(8, "f4"), read_only)
    assert package.state["seen"] == 0


def test_an_exported_program_is_taken_as_it_is(tmp_path):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    x = torch.randn(3, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: Dim.AUTO},))
    anabranch.export(program, tmp_path / "p")
    with torch.no_grad():
        assert_same(anabranch.load(tmp_path / "p")(x[:2]), model(x[:2]))


def test_the_graph_of_an_export_has_no_mode(tmp_path):
    """PT2E's quantised models are such graphs: they refuse eval()."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    x = torch.randn(3, 8)
    graph = torch.export.export(model, (x,)).module()
    assert graph.training
    with pytest.raises(NotImplementedError):
        graph.eval()
    anabranch.export(graph, tmp_path / "p", x)
    with torch.no_grad():
        assert_same(anabranch.load(tmp_path / "p")(x), model(x))


def test_equal_and_derived_sizes_are_checked(tmp_path):
    class Add(nn.Module):
        def forward(self, x, y, z):
            return x + y, z[::2] + x

    n = Dim("n", min=2, max=32)
    args = (torch.randn(4), torch.randn(4), torch.randn(8))
    anabranch.export(
        Add().eval(), tmp_path / "p", args, dynamic_shapes=({0: n}, {0: n}, {0: 2 * n})
    )
    package = anabranch.load(tmp_path / "p")
    args = (torch.randn(7), torch.randn(7), torch.randn(14))
    assert_same(package(*args), Add()(*args))
    with pytest.raises(ValueError, match="'y'"):
        package(args[0], torch.randn(6), args[2])
    with pytest.raises(ValueError, match="'z'"):
        package(*args[:2], torch.randn(13))


def test_a_range_may_begin_at_zero_or_one(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = self.linear(x)
            return y - y.mean(1, keepdim=True), x.sum(0)

    model, rows = Model().eval(), Dim("rows", min=0, max=6)
    anabranch.export(
        model, tmp_path / "p", torch.randn(4, 8), dynamic_shapes=({0: rows},)
    )
    package = anabranch.load(tmp_path / "p")
    for count in (0, 1, 2, 6):
        x = torch.randn(count, 8)
        with torch.no_grad():
            assert_same(package(x), model(x))
    with pytest.raises(ValueError, match="6 or less"):
        package(torch.randn(7, 8))


def test_several_targets_give_the_same_results(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)).eval()
    x = torch.randn(8, 64)
    targets = ["x86-64-v3", "x86-64-v4"]
    anabranch.export(model, tmp_path / "p", x, targets=targets)
    manifest = json.loads((tmp_path / "p/manifest.json").read_text())
    assert [target["name"] for target in manifest["targets"]] == targets[::-1]
    with torch.no_grad():
        wanted = model(x)
    best = anabranch.load(tmp_path / "p")
    assert_same(best(x), wanted)
    monkeypatch.setenv("ANABRANCH_TARGET", "x86-64-v3")
    lower = anabranch.load(tmp_path / "p")
    assert lower.target == "x86-64-v3"
    assert_same(lower(x), wanted)
    with pytest.raises(RuntimeError, match="no target 'arm'"):
        anabranch.load(tmp_path / "p", target="arm")
    # Packed weights are mapped, so that only arenas are private memory.
    assert best._executable.cached_bytes < 100_000
    # The exporting machine prepares weights for the targets that it can run.
    for target in targets[: targets.index(best.target) + 1]:
        assert (tmp_path / f"p/targets/{target}/prepared.bin").stat().st_size


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_portable_code_runs_whole_models(dtype, tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(3, 32, 3, padding=1)
            self.norm = nn.LayerNorm(32)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.table = nn.Embedding(10, 32)

        def forward(self, image, words):
            tokens = self.convolution(image).flatten(2).transpose(1, 2)
            tokens = self.layer(self.norm(tokens) + self.table(words))
            return tokens.log_softmax(-1), torch.tanh(tokens).cumsum(1)

    torch.manual_seed(0)
    model = Model().eval().to(dtype)
    inputs = torch.randn(2, 3, 6, 6, dtype=dtype), torch.randint(10, (2, 36))
    anabranch.export(model, tmp_path / "p", inputs, targets=["portable"])
    manifest = json.loads((tmp_path / "p/manifest.json").read_text())
    assert not manifest["features"]
    with torch.no_grad():
        wanted = model.double()(inputs[0].double(), inputs[1])
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    for result, exact in zip(anabranch.load(tmp_path / "p")(*inputs), wanted):
        torch.testing.assert_close(
            result.double(), exact, atol=tolerance, rtol=tolerance
        )


def test_a_weight_is_stored_once(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(1000, 64)
            self.head = nn.Linear(64, 1000, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    model, tokens = Tied().eval(), torch.arange(5)
    anabranch.export(model, tmp_path / "p", tokens)
    with torch.no_grad():
        assert_same(anabranch.load(tmp_path / "p")(tokens), model(tokens))
    weight = 1000 * 64 * 4
    assert (tmp_path / "p/constants.safetensors").stat().st_size < 1.1 * weight
    assert (tmp_path / "p/targets/native/prepared.bin").stat().st_size < 1.1 * weight


def test_bfloat16_without_ml_dtypes_says_so(tmp_path):
    model = nn.Linear(8, 8).to(torch.bfloat16).eval()
    x = torch.randn(2, 8, dtype=torch.bfloat16)
    anabranch.export(model, tmp_path / "p", x)
    package = anabranch.load(tmp_path / "p")
    with torch.no_grad():
        assert_same(package(x), model(x))
    try:
        import ml_dtypes
    except ImportError:
        bits = x.view(torch.int16).numpy()
        with pytest.raises(TypeError, match="expected dtype bf16, got i16"):
            package(bits)
        return
    found = package(x.float().numpy().astype(ml_dtypes.bfloat16))
    assert found.dtype == ml_dtypes.bfloat16


class Updates(nn.Module):
    def forward(self, x, y):
        return x.mul_(2), y.add_(1)


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x) + 1


def test_operators_of_pytorch_are_named_with_their_lines(tmp_path):
    x = torch.randn(4, 8)
    with pytest.raises(anabranch.CompileError) as caught:
        anabranch.export(Bessel().eval(), tmp_path / "p", x)
    line = Bessel.forward.__code__.co_firstlineno + 1
    assert "aten.special_bessel_j0" in str(caught.value)
    assert f"{Path(__file__).name}:{line}" in str(caught.value)
    assert os.listdir(tmp_path) == []
    anabranch.export(Bessel().eval(), tmp_path / "p", x, allow_libtorch=True)
    assert_same(anabranch.load(tmp_path / "p")(x), Bessel()(x))


def test_bad_places_are_refused_before_anything_is_compiled(tmp_path):
    model, x = nn.Linear(8, 8).eval(), torch.randn(2, 8)

    def refused(error, message, path, **how):
        with pytest.raises(error, match=message):
            anabranch.export(model, path, x, **how)

    refused(FileNotFoundError, "no folder", tmp_path / "none/p")
    (tmp_path / "file").write_text("mine")
    refused(FileExistsError, "overwrite=True", tmp_path / "file")
    refused(FileExistsError, "no package", tmp_path / "file", overwrite=True)
    (tmp_path / "empty").mkdir()
    refused(FileExistsError, "overwrite=True", tmp_path / "empty")
    refused(FileExistsError, "no package", tmp_path / "empty", overwrite=True)
    anabranch.export(model, tmp_path / "p", x)
    refused(FileExistsError, "overwrite=True", tmp_path / "p")
    old = anabranch.load(tmp_path / "p")
    anabranch.export(nn.ReLU().eval(), tmp_path / "p", x, overwrite=True)
    assert (anabranch.load(tmp_path / "p")(x) >= 0).all()
    with torch.no_grad():
        assert_same(old(x), model(x))
    if os.geteuid() != 0:
        (tmp_path / "empty").chmod(0o500)
        refused(PermissionError, "can't be written", tmp_path / "empty/p")
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "p"]


def test_bad_requests_are_refused(tmp_path):
    model, x = nn.Linear(8, 8).eval(), torch.randn(2, 8)
    place = tmp_path / "p"

    def refused(error, message, *arguments, **how):
        with pytest.raises(error, match=message):
            anabranch.export(*arguments, **how)

    refused(TypeError, "example inputs", model, place)
    message = "updates an example input that shares memory with another"
    refused(anabranch.CompileError, message, Updates().eval(), place, (x, x))
    refused(TypeError, "nn.Module or an ExportedProgram", torch.relu, place, x)
    refused(ValueError, "training mode", nn.Linear(8, 8), place, x)
    refused(TypeError, "list of names", model, place, x, targets="native")
    refused(ValueError, "different names", model, place, x, targets=[])
    unknown = "unknown target 'arm': it must be one of host, native, portable"
    refused(anabranch.CompileError, unknown, model, place, x, targets=["arm"])
    refused(anabranch.CompileError, "torch.export", model, place, torch.randn(2, 9))
    rows = {"input": {0: Dim("rows", min=4, max=8)}}
    refused(
        anabranch.CompileError, "torch.export", model, place, x, dynamic_shapes=rows
    )
    program = torch.export.export(model, (x,))
    refused(ValueError, "already", program, place, dynamic_shapes=rows)
    assert os.listdir(tmp_path) == []


class Keys(nn.Module):
    """Its dicts have keys of several types, two of which have one name."""

    def forward(self, x, given):
        pair = (x + given[3], {2.5: x - given[True]})
        return {1: x + 1, "1": x * 2, None: pair, "a.b": x * 3, "a": {"b": x * 4}}


def test_keys_of_dicts_need_not_be_strings(tmp_path):
    model, x = Keys().eval(), torch.randn(3)
    given = {3: torch.randn(3), True: torch.randn(3)}
    anabranch.export(model, tmp_path / "p", (x, given))
    package = anabranch.load(tmp_path / "p")
    found, wanted = package(x, given), model(x, given)
    assert list(found) == list(wanted) and list(found[None][1]) == [2.5]
    for mine, eager in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        torch.testing.assert_close(mine, eager)
    manifest = json.loads((tmp_path / "p/manifest.json").read_text())
    names = ["output1", "output1_2", "None.0", "None.1.2.5", "a.b", "a.b_2"]
    assert manifest["signature"]["outputs"] == names
    with pytest.raises(TypeError, match="given: expected a dict of 3, True"):
        package(x, {3: x})

    class Odd(nn.Module):
        def forward(self, x):
            return {(1, 2): x + 1}

    message = r"a dict with the key \(1, 2\): a package keeps strings, numbers"
    with pytest.raises(anabranch.CompileError, match=message):
        anabranch.export(Odd().eval(), tmp_path / "odd", (x,))


def test_a_tree_that_lies_is_refused(block, tmp_path):
    import shutil

    shutil.copytree(block[1], tmp_path / "p")
    manifest = tmp_path / "p/manifest.json"
    text = json.loads(manifest.read_text())
    for tree in (99, -1, True, "x", {"dict": 3}, {"tuple": [7, 99]}, {"set": []}, {}):
        text["signature"]["results"] = tree
        manifest.write_text(json.dumps(text))
        with pytest.raises(ValueError, match="leaf|node"):
            anabranch.load(tmp_path / "p")


def test_scopes_are_those_of_the_model(tmp_path):
    """An export marks streams and super kernels as torch.compile does."""

    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            with anabranch.super_kernel("chain"):
                y = self.second(self.first(x).relu())
            with anabranch.stream("side"):
                z = self.first(x) @ x.t()
            return y.softmax(-1), anabranch.wait(z, y).softmax(-1)

    model, x = Marked().eval(), torch.randn(8, 16)
    anabranch.export(model, tmp_path / "m.anb", (x,))
    report = anabranch.last_report()
    assert [entry["name"] for entry in report["super_kernels"]] == ["chain_0"]
    loaded = anabranch.load(tmp_path / "m.anb")
    with anabranch.profile(tmp_path / "trace.json"):
        found = loaded(x)
    [program] = read_trace(tmp_path / "trace.json").programs
    assert "side" in [stream["name"] for stream in program["streams"]]
    torch.testing.assert_close(tuple(found), model(x), rtol=1e-4, atol=1e-5)


@torch.compiler.disable
def hidden(x):
    return x + 1


@torch.compiler.disable
def hidden_too(x):
    return hidden(x) * 2


def test_functions_hidden_from_dynamo(tmp_path):
    """torch.export notes such functions on nodes. `export` ignores the notes, and leaves
    them on a program that the caller holds."""

    class Model(nn.Module):
        def forward(self, x):
            return hidden_too(x.relu()) + torch.tensor([1.0, 2.0])

    model, x = Model().eval(), torch.randn(3, 2)
    with preserve_node_meta():
        program = torch.export.export(model, (x,))

    def notes():
        return [dict(node.meta.get("custom") or {}) for node in program.graph.nodes]

    before = notes()
    anabranch.export(program, tmp_path / "p", (x,))
    assert any(before)
    assert notes() == before
    torch.testing.assert_close(anabranch.load(tmp_path / "p")(x), model(x))


def test_gears_are_programs_over_one_copy_of_the_weights(tmp_path):
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).eval()
    x = torch.randn(2, 64)
    sizes = ({0: Dim("rows", min=1, max=9)},)
    anabranch.export(model, tmp_path / "plain", (x,), dynamic_shapes=sizes)
    anabranch.set_gears(x, {0: [1, 2, 9]})
    anabranch.export(model, tmp_path / "geared", (x,), dynamic_shapes=sizes)
    loaded = anabranch.load(tmp_path / "geared")
    for rows in (1, 2, 9, 2):
        x = torch.randn(rows, 64)
        with torch.no_grad():
            torch.testing.assert_close(loaded(x), model(x), atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="no program was compiled for the sizes"):
        loaded(torch.randn(3, 64))
    plain, geared = (
        sum(f.stat().st_size for f in (tmp_path / name).rglob("*.safetensors"))
        for name in ("plain", "geared")
    )
    assert (
        geared <= 2 * plain
    )  # weights for few rows and for many rows lie in two orders


def test_gears_of_several_inputs_are_combined(tmp_path):
    x, y = torch.randn(2, 4), torch.randn(3, 4)
    anabranch.set_gears(x, {0: [2, 5]})
    anabranch.set_gears(y, {0: [3, 6]})
    sizes = ({0: Dim("m")}, {0: Dim("n")})
    anabranch.export(Product().eval(), tmp_path / "p", (x, y), dynamic_shapes=sizes)
    loaded = anabranch.load(tmp_path / "p")
    for m in (2, 5):
        for n in (3, 6):
            x, y = torch.randn(m, 4), torch.randn(n, 4)
            torch.testing.assert_close(loaded(x, y), x @ y.t())


class Product(nn.Module):
    def forward(self, x, y):
        return x @ y.t()


@pytest.mark.parametrize(
    ("gears", "sizes", "wrong"),
    [
        (({0: [2, 4]}, {}), "fixed", "has gears and is not dynamic"),
        (({0: [2, 4]}, {0: [2, 6]}), "same", r"has gears \[2, 6\] and \[2, 4\]"),
        (({0: range(2, 104)}, {}), "same", "102 combinations of gears"),
    ],
)
def test_gears_that_can_not_be_are_refused(tmp_path, gears, sizes, wrong):
    tensors = torch.randn(2, 4), torch.randn(2, 4)
    for tensor, own in zip(tensors, gears):
        anabranch.set_gears(tensor, {d: [*g] for d, g in own.items()})
    rows = Dim("rows", max=200)
    shapes = ({0: rows}, {0: rows})
    model = Product().eval()
    if sizes == "fixed":
        plain = tuple(map(torch.clone, tensors))
        model, shapes = torch.export.export(model, plain), None
    with pytest.raises(anabranch.CompileError, match=wrong):
        anabranch.export(model, tmp_path / "p", tensors, dynamic_shapes=shapes)
