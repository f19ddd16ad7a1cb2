"""Static kernels: the folder of records, the library, ranks, and the page's script."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import anabranch
import guide
import torchair
from anabranch import cli
from anabranch.packages import kernel_library
from programs import run_python
from torchair._impl.kernels import static_kernels

OPTION = "_aclnn_static_shape_kernel"
OUTPUTS = re.compile(r"ts\d{20}_pid(\d+)_outputs")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x):
        return torch.relu(self.linear(x)).view(-1) + 1


@pytest.fixture(autouse=True)
def forgotten(cache_home):
    static_kernels.forget_compiled()
    kernel_library.prune()
    yield
    kernel_library.prune()


def configured(folder, mode="reduce-overhead", **more):
    config = torchair.CompilerConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config.mode = mode
    aclgraph = config.experimental_config.aclgraph
    setattr(aclgraph, OPTION, True)
    if folder is not None:
        setattr(aclgraph, f"{OPTION}_build_dir", str(folder))
    for name, value in more.items():
        setattr(aclgraph, f"{OPTION}_{name}", value)
    return config


def run(config, model, *inputs, dynamic=False):
    backend = torchair.get_npu_backend(compiler_config=config)
    with torch.no_grad():
        return torch.compile(model, backend=backend, dynamic=dynamic)(*inputs)


def runs_of(folder, root="aclnn_static_shape_kernel_outputs"):
    return sorted((folder / root).glob("ts*"))


@pytest.mark.checklist("T102")
@pytest.mark.parametrize(
    ("mode", "root"),
    [
        ("reduce-overhead", "aclnn_static_shape_kernel_outputs"),
        ("npugraph_ex", "static_kernel_compile_outputs"),
    ],
)
def test_products_lie_as_the_page_draws_them(tmp_path, mode, root) -> None:
    model, x = Model().eval(), torch.randn(4, 16)
    with pytest.warns(UserWarning, match="Starting static kernel compilation, the"):
        found = run(configured(tmp_path, mode), model, x)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x))
    assert os.listdir(tmp_path) == [root]
    (folder,) = runs_of(tmp_path, root)
    match = OUTPUTS.fullmatch(folder.name)
    assert match and match[1] == str(os.getpid())
    names = sorted(path.name for path in folder.iterdir())
    pid = match[1]
    assert names[:4] == [pid, f"{pid}_debug", f"{pid}_opcompile",
                         f"{pid}_opcompile_selected"]  # fmt: skip
    assert re.fullmatch(r"static_kernel_\d{14}\.run", names[4])
    ours = {path.name for path in (folder / pid).iterdir()}
    every = {path.name for path in (folder / f"{pid}_debug").iterdir()}
    assert ours < every  # a view computes nothing
    (name,) = (name for name in ours if name.startswith("MatMulV2"))
    assert re.fullmatch(r"MatMulV2_float_ND_4_16_\d+\.json", name)
    said = json.loads((folder / pid / name).read_text())
    assert said["inputs"][0] == {"shape": [4, 16], "format": "ND", "dtype": "float"}
    assert said["outputs"] == [{"shape": [4, 8], "format": "ND", "dtype": "float"}]


def test_the_run_file_installs_what_it_carries(tmp_path) -> None:
    run(configured(tmp_path), Model().eval(), torch.randn(4, 16))
    (folder,) = runs_of(tmp_path)
    (file,) = folder.glob("*.run")
    assert file.stat().st_size > 1000 and os.access(file, os.X_OK)
    (row,) = kernel_library.entries()
    place = Path("kernels", row["key"][:2], row["key"])
    for said in ("installed", "already there"):
        done = subprocess.run(
            [file, tmp_path / "library"], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{said}: {tmp_path / 'library' / place}\n"
    installed = {**row, "folder": str(tmp_path / "library" / place)}
    assert kernel_library.text_of(installed) == kernel_library.text_of(row)
    assert (tmp_path / "library" / place / "kernels.so").stat().st_size
    inside = os.listdir(tmp_path / "library/kernels" / row["key"][:2])
    assert [name for name in inside if not name.endswith(".lock")] == [row["key"]]


def test_the_library_is_listed_shown_and_pruned(tmp_path, capsys) -> None:
    run(configured(tmp_path), Model().eval(), torch.randn(4, 16))
    (row,) = kernel_library.entries()
    assert cli.main(["kernels", "ls"]) == 0
    out = capsys.readouterr().out
    assert row["key"][:12] in out and "1 entries" in out
    assert cli.main(["kernels", "show", row["key"][:8]]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["operators"][0]["op_type"] == "MatMulV2"
    assert cli.main(["kernels", "show", "zz"]) == 1
    assert "no entry has a key" in capsys.readouterr().err
    assert cli.main(["kernels", "prune", "--days", "1"]) == 0
    assert "removed 0" in capsys.readouterr().out
    assert cli.main(["kernels", "prune"]) == 0
    assert "removed 1" in capsys.readouterr().out and kernel_library.entries() == []


def run_flat(folder, model, x, **options):
    """A later process of npugraph_ex in the folder."""
    static_kernels.forget_compiled()
    torch._dynamo.reset()
    with contextlib.chdir(folder), torch.no_grad():
        options = {"static_kernel_compile": True, **options}
        return torch.compile(model, backend="npugraph_ex", options=options)(x)


@pytest.mark.parametrize("force_eager", [False, True])
def test_later_runs_use_the_script_that_is_there(tmp_path, force_eager) -> None:
    model, x = Model().eval(), torch.randn(4, 16)
    root = "static_kernel_compile_outputs"
    anew = {"disable_static_kernel_compile_cache": True}
    # The folders and the scripts after each run.
    for more, folders, scripts in (({}, 1, 1), ({}, 2, 1), (anew, 3, 2), ({}, 4, 2)):
        found = run_flat(tmp_path, model, x, force_eager=force_eager, **more)
        with torch.no_grad():
            torch.testing.assert_close(found, model(x))
        assert len(runs_of(tmp_path, root)) == folders
        assert len(list((tmp_path / root).glob("*/*.run"))) == scripts
    run_flat(tmp_path, model, torch.randn(5, 16), force_eager=force_eager)
    assert len(list((tmp_path / root).glob("*/*.run"))) == 3
    (table,) = (tmp_path / root / "static_kernel_cache").glob("CANN-*.json")
    rows = json.loads(table.read_text())
    assert len(rows) == 2 and all(
        (tmp_path / root / p).is_file() for p in rows.values()
    )
    # A script that was removed is written again; so is one whose table is broken.
    for path in rows.values():
        (tmp_path / root / path).unlink()
    run_flat(tmp_path, model, x, force_eager=force_eager)
    assert len(list((tmp_path / root).glob("*/*.run"))) == 2
    for broken in ("no table", "[1]"):
        table.write_text(broken)
        count = len(list((tmp_path / root).glob("*/*.run")))
        run_flat(tmp_path, model, x, force_eager=force_eager)
        assert len(list((tmp_path / root).glob("*/*.run"))) == count + 1


def test_kernels_that_are_made_anew_are_no_entries(tmp_path) -> None:
    model, x = Model().eval(), torch.randn(4, 16)
    run_flat(tmp_path, model, x, disable_static_kernel_compile_cache=True)
    assert kernel_library.entries() == []


@pytest.mark.checklist("T104")
def test_an_operator_is_compiled_once_in_a_process(tmp_path) -> None:
    model, x = Model().eval(), torch.randn(4, 16)
    for _ in range(2):
        torch._dynamo.reset()
        run(configured(tmp_path), model, x)
    first, second = runs_of(tmp_path)
    pid = os.getpid()
    assert list(first.glob("*.run")) and not list(second.glob("*.run"))
    assert list((first / f"{pid}_opcompile_selected").iterdir())
    assert not list((second / f"{pid}_opcompile_selected").iterdir())
    assert list((second / f"{pid}").iterdir())
    assert len(kernel_library.entries()) == 1


def test_symbolic_sizes_get_a_program_of_their_own(tmp_path, caplog, debug) -> None:
    model = Model().eval()
    backend = torchair.get_npu_backend(compiler_config=configured(tmp_path))
    compiled = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(10, torchair.logger.name):
        for rows in (4, 4, 9):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(compiled(x), model(x))
    (row,) = kernel_library.entries()
    assert list(kernel_library.text_of(row)["sizes"].values()) == [4]
    assert anabranch.counters.graphs == 1
    assert "compiled" in caplog.text
    torch._dynamo.reset()
    static_kernels.forget_compiled()
    caplog.clear()
    with caplog.at_level(10, torchair.logger.name):
        run(configured(tmp_path), model, torch.randn(4, 16), dynamic=True)
    assert "from the library" in caplog.text


def test_nothing_is_written_but_once(tmp_path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            x.mul_(2)
            return x + self.calls

    model, x = Counting().eval(), torch.ones(3)
    found = run(configured(tmp_path), model, x)
    assert found.tolist() == [3.0] * 3 and x.tolist() == [2.0] * 3
    assert model.calls.item() == 1


@pytest.mark.checklist("T103")
def test_bad_build_folders_are_refused(tmp_path, monkeypatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    for folder, error, message in (
        (f"{tmp_path}/a\0b", ValueError, "NUL"),
        (f"{tmp_path}/real/../real", ValueError, "'..'"),
        (tmp_path / "link", ValueError, "link"),
        (tmp_path / "link/inner", ValueError, "link"),
        (tmp_path / "file", RuntimeError, "can't create"),
    ):
        torch._dynamo.reset()
        with pytest.raises(error, match=message):
            run(configured(folder), Model().eval(), torch.randn(4, 16))
    torch._dynamo.reset()
    run(configured(tmp_path / "new/folder"), Model().eval(), torch.randn(4, 16))
    assert runs_of(tmp_path / "new/folder")
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path / "real")
    run(configured(None), Model().eval(), torch.randn(4, 16))
    assert len(runs_of(tmp_path / "real")) == 1


def test_what_fails_in_the_compiler_is_a_warning(tmp_path, monkeypatch) -> None:
    def fail(*_arguments, **_options):
        raise RuntimeError("no compiler today")

    monkeypatch.setattr(static_kernels.ExactShapes, "compile", fail)
    model, x = Model().eval(), torch.randn(4, 16)
    with pytest.warns(UserWarning, match="no compiler today"):
        found = run(configured(tmp_path), model, x)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x))


def test_the_other_mode_compiles_none(tmp_path) -> None:
    run(configured(tmp_path, "max-autotune"), Model().eval(), torch.randn(4, 16))
    assert os.listdir(tmp_path) == []


@pytest.mark.checklist("T108")
def test_eager_runs_compile_for_the_values_asked_for(tmp_path, caplog, debug) -> None:
    config = configured(tmp_path, sym_value_range=[4, 6], sym_index=0)
    config.debug.run_eagerly = True
    backend = torchair.get_npu_backend(compiler_config=config)
    compiled = torch.compile(Model().eval(), backend=backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(10, torchair.logger.name):
        for rows in (4, 4, 5, 6):
            compiled(torch.randn(rows, 16))
    said = [r.getMessage() for r in caplog.records]
    started = [s for s in said if s.startswith("Start to compile static shape kernel")]
    skipped = [s for s in said if s.startswith("Skip compile static shape kernel")]
    assert len(started) == 2 and len(skipped) == 2
    assert len(runs_of(tmp_path)) == 2


def test_the_page_runs_as_written(tmp_path) -> None:
    script = (
        "import torch\nmodel = torch.nn.Linear(8, 4).eval()\n"
        + guide.static_script(tmp_path / "test")
        + "x = torch.randn(2, 8)\nwith torch.no_grad():\n"
        + "    torch.testing.assert_close(opt_model(x), model(x))\n"
    )
    assert not run_python("-W", "ignore", "-c", script).stderr
    (folder,) = runs_of(tmp_path / "test")
    assert OUTPUTS.fullmatch(folder.name) and list(folder.glob("*.run"))


RANK = """
import os, sys, warnings
import torch, torch.distributed as dist, torch_npu, torchair
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank,
                        world_size=2)
config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = folder
torch.manual_seed(0)
model, x = torch.nn.Linear(8, 4).eval(), torch.randn(3, 8)
torchair.logger.setLevel(10)
with warnings.catch_warnings(record=True) as seen, torch.no_grad():
    warnings.simplefilter("always")
    try:
        compiled = torch.compile(
            model, backend=torchair.get_npu_backend(compiler_config=config)
        )
        torch.testing.assert_close(compiled(x), model(x))
        print("results agree")
    except RuntimeError as error:
        print(str(error).splitlines()[0])
print([str(w.message) for w in seen])
dist.destroy_process_group()
"""


def two_ranks(folder, **environment):
    env = {k: v for k, v in os.environ.items() if k != "LOCAL_WORLD_SIZE"}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(folder)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = []
    for process in both:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        said.append(out)
    return said


@pytest.mark.checklist("T106")
@pytest.mark.slow
def test_two_ranks_compile_once(tmp_path) -> None:
    first, second = two_ranks(tmp_path, LOCAL_WORLD_SIZE="2")
    assert "results agree" in first and "results agree" in second
    assert "Rank 0: starting static kernel compilation for multi card" in first
    assert re.search(r"static kernels \w+: compiled", first)
    assert re.search(r"static kernels \w+: from the library", second)
    folders = [path for path in runs_of(tmp_path) if list(path.glob("*.run"))]
    assert len(folders) == 1 and len(runs_of(tmp_path)) == 2
    assert list(folders[0].glob("*_opcompile_gathered/*.json"))


@pytest.mark.checklist("T105")
@pytest.mark.parametrize(
    ("size", "said"),
    [
        (None, "'LOCAL_WORLD_SIZE' is not set in a multi-card context"),
        ("3", "is not divisible by LOCAL_WORLD_SIZE 3"),
        ("0", "must be above zero"),
        ("two", "must be an integer"),
    ],
)
def test_ranks_that_do_not_say_how_many(tmp_path, size, said) -> None:
    more = {} if size is None else {"LOCAL_WORLD_SIZE": size}
    for out in two_ranks(tmp_path, **more):
        assert said in out and ("results agree" in out) == (size is None)
    assert not (tmp_path / "aclnn_static_shape_kernel_outputs").exists()


CACHED = """
import gc, sys, torch, torch_npu, torchair
from anabranch import _C
folder, dynamic = sys.argv[1], sys.argv[2] == "dynamic"

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        config = torchair.CompilerConfig()
        config.mode = "reduce-overhead"
        static = config.experimental_config.aclgraph
        static._aclnn_static_shape_kernel = True
        static._aclnn_static_shape_kernel_build_dir = folder
        self.cached = torchair.inference.cache_compile(
            self.inner, config=config, dynamic=dynamic, cache_dir=folder + "/cache"
        )

    def inner(self, x):
        return torch.relu(self.linear(x))

with torch.no_grad():
    model, x = Model().eval(), torch.randn(3, 8)
    torch.testing.assert_close(model.cached(x), model.inner(x))
    found = [e for e in gc.get_objects() if type(e) is _C.Executable]
    print("programs", max(e.programs for e in found))
"""


@pytest.mark.checklist("T107")
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_with_cache_compile_the_second_process_compiles_nothing(
    tmp_path, sizes
) -> None:
    """With symbolic sizes, the second process also reads the program for the sizes of the
    first call."""
    folders = []
    for _ in range(2):
        done = run_python("-W", "ignore", "-c", CACHED, str(tmp_path), sizes)
        assert f"programs {2 if sizes == 'dynamic' else 1}" in done.stdout
        folders.append(runs_of(tmp_path))
    assert len(folders[0]) == 1 and list(folders[0][0].glob("*.run"))
    assert folders[1] == folders[0]
