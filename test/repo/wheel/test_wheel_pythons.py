"""The wheels run on each Python of this machine, in a folder of their own, without
PyTorch. Packages run from NumPy, and code that depends on CPython's internals works as
on the Python of the other tests. `make soak` also unpacks other systems."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import anabranch
from package_calls import CALL
from repository import ROOT
from wheel_support import run, wheel_named
from wheels import debian, pythons

pytestmark = pytest.mark.slow
FOUND = {python.version: python for python in pythons.find()}


def numpy_folder(python: pythons.Python) -> Path:
    """NumPy for this Python, kept between runs of the tests."""
    if python.version == "3.11":
        return Path(sysconfig.get_path("purelib"))
    folder = ROOT / ".cache" / f"numpy-{python.version}"
    if not (folder / "numpy").exists():
        command = [python.executable, "-m", "pip", "install", "-q", "--no-deps"]
        command += ["--only-binary", ":all:", "--target", folder, "numpy"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"no NumPy can be had for CPython {python.version}")
    return folder


def installed(wheel: Path, python: pythons.Python, folder: Path) -> Path:
    """Installs a wheel with pip, which refuses it if its tags do not fit."""
    run(
        *(python.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"),
        *("--disable-pip-version-check", "--target", folder, wheel),
    )
    return folder


def run_script(python: pythons.Python, folders: list[Path], *words: object) -> str:
    path = os.pathsep.join(map(str, folders))
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": path}
    return run(python.executable, "-c", *words, cwd="/", env=environment)


@pytest.fixture(params=pythons.SUPPORTED)
def python(request: pytest.FixtureRequest) -> pythons.Python:
    if request.param not in FOUND:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return FOUND[request.param]


def test_runtime_wheel(
    distributions: list[Path], python: pythons.Python, exported: Path, tmp_path: Path
) -> None:
    wheel = wheel_named(distributions, "anabranch_runtime-")
    folders = [installed(wheel, python, tmp_path), numpy_folder(python)]
    assert run_script(python, folders, CALL, "anabranch_runtime", exported) == "done\n"
    prefix = run_script(
        python, folders, "import anabranch_runtime as a; print(a.prefix())"
    )
    assert (Path(prefix.strip()) / "include/anabranch/anabranch.h").exists()


INSIDE = """
import marshal, sys, types
from anabranch import _C  # before anything that looks like PyTorch
torch = types.ModuleType("torch")
class Kind:
    def __init__(self, name): self.name = name
    def __repr__(self): return f"torch.{self.name}"
    def __eq__(self, other): return type(self) is type(other) and self.name == other.name
    def __hash__(self): return hash(self.name)
for kind in ("device", "dtype", "layout", "memory_format"):
    setattr(torch, kind, type(kind, (Kind,), {}))
torch.float32 = torch.dtype("float32")
sys.modules["torch"] = torch
from anabranch.method_cache import bytecode

def outer(a, b=(1, frozenset({2, 3}))):
    try:
        total = [first(x) + other.second for x in a]
    except ValueError as error:
        total = third(error)
    return lambda: (total, fourth, b)

names = bytecode.global_names(outer.__code__)
assert names == {"first", "other", "third", "fourth", "ValueError"}, names
changed = bytecode.rename(outer.__code__, {"first": "__first_1", "fourth": "__fourth_2"})
again = marshal.loads(marshal.dumps(bytecode.spelled(changed)))
assert bytecode.code_digest(again) == bytecode.code_digest(changed)
assert bytecode.code_digest(again) != bytecode.code_digest(outer.__code__)
space = {"__first_1": lambda x: x * 10, "other": types.SimpleNamespace(second=1)}
space |= {"__fourth_2": "four", "third": str, "ValueError": ValueError}
function = types.FunctionType(again, space, "outer", outer.__defaults__)
assert function([1, 2])() == ([11, 21], "four", (1, frozenset({2, 3})))
def failing(x): raise ValueError("bad")
space["__first_1"] = failing
assert function([1])()[0] == "bad"
value = (torch.float32, (torch.device("cpu"), 3))
assert bytecode.read(marshal.loads(marshal.dumps(bytecode.spelled(value)))) == value

# The call that fetches its arguments from a module, and sees what has changed.
class Stale(Exception):
    pass
class Base:
    shared = "of the class"
class Module(Base):
    pass
def helper(x, *, y=7):
    return x
def closing(z):
    return lambda: z
cell = closing("in a cell").__closure__[0]
module = Module()
module.weight, module.items, module.helper, module.cell = "w", ["a", "b"], helper, cell
W, C = _C.Within, _C.Compared
def graph_call():
    return _C.GraphCall(
        lambda *given: given, Stale, 6,
        [(-1, None, W.Attributes, None), (0, "items", W.Sequence, None),
         (0, "helper", W.Function, None), (0, "cell", W.Cell, None),
         (-1, None, W.Class, None)],
        [(0, "weight", 0), (1, 1, 2), (2, "__kwdefaults__", 3), (3, "cell_contents", 4),
         (4, "shared", 5)],
        [(1, None, C.Length, (2,), "the number of items"),
         (2, "__code__", C.Item, (helper.__code__,), "the code"),
         (0, "weight", C.Type, (str,), "the type of the weight"),
         (4, "missing", C.Item, (), "an attribute that is not there")],
    )
call = graph_call()
wanted = ("w", "given", "b", {"y": 7}, "in a cell", "of the class")
for _ in range(3):
    assert call(module, "given") == wanted, call(module, "given")
module.weight, cell.cell_contents, Base.shared = "w2", "new", "changed"
assert call(module, "given") == ("w2", "given", "b", {"y": 7}, "new", "changed")
def refused(change):
    change()
    try:
        call(module, "given")
    except Stale as error:
        return str(error)
    raise AssertionError("nothing was seen")
assert "number of items" in refused(lambda: module.items.append("c"))
module.items.pop()
assert call(module, "given")[0] == "w2"
def other(x, *, y=7): return x + 1
assert "the code" in refused(lambda: setattr(module, "helper", other))
module.helper = helper
assert "not there" in refused(lambda: setattr(Base, "missing", 1))
del Base.missing
assert "the type" in refused(lambda: setattr(module, "weight", b"w"))
module.weight = "w2"
assert "another kind" in refused(lambda: setattr(module, "cell", 3))
module.cell = cell
assert "gone" in refused(lambda: delattr(module, "weight"))
module.weight = "w3"
assert call(module, "given")[0] == "w3"
print("done")
"""


def test_compiler_wheel(
    distributions: list[Path], python: pythons.Python, exported: Path, tmp_path: Path
) -> None:
    binding = pythons.wheel_tag(python.tag)
    wheel = wheel_named(distributions, f"-{binding}-")
    folders = [installed(wheel, python, tmp_path), numpy_folder(python)]
    assert run_script(python, folders, CALL, "anabranch", exported) == "done\n"
    compiler = "import anabranch._C as c; print(c.compiler_version())"
    assert run_script(python, folders, compiler).strip() == anabranch.__version__
    assert run_script(python, folders[:1], INSIDE) == "done\n"


def system(folder: Path, suite: str, *packages: str) -> Path:
    """A root folder with these packages of a Debian suite, and with what they need."""
    debian.unpack(folder / "root", suite, "base-files", *packages)
    return folder / "root"


def inside(root: Path, *command: object, **variables: str) -> str:
    """The output of a command that has `root` as its root. The folder has no /proc, from
    which an old loader takes a program's place: LD_LIBRARY_PATH says it."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", **variables}
    return run("/usr/sbin/chroot", root, *command, cwd="/", env=environment)


other_system = pytest.mark.skipif(os.geteuid() != 0, reason="chroot is root's")


@pytest.mark.soak
@other_system
def test_cpython_3_14_of_debian(
    distributions: list[Path], exported: Path, tmp_path: Path
) -> None:
    root = system(tmp_path, "forky", "python3.14", "libstdc++6")
    shutil.copytree(exported, root / "model")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    pip += ["--python-version", "3.14", "--only-binary", ":all:"]
    for module, part in [
        ("anabranch_runtime", "anabranch_runtime-"),
        ("anabranch", "-cp312-abi3-"),
    ]:
        wheel = wheel_named(distributions, part)
        run(*pip, "--target", root / f"for_{module}", wheel, "numpy")
        path = {"PYTHONPATH": f"/for_{module}"}
        arguments = ("/usr/bin/python3.14", "-c", CALL, module, "/model")
        assert inside(root, *arguments, **path) == "done\n"
    assert inside(root, "/usr/bin/python3.14", "-c", INSIDE, **path) == "done\n"


@pytest.mark.soak
@other_system
def test_an_old_glibc(
    distributions: list[Path], exported: Path, tmp_path: Path
) -> None:
    """The oldest suite of Debian's archive has glibc 2.31; wheels are made with 2.36."""
    root = system(tmp_path, "bullseye", "libgcc-s1")
    shutil.copytree(exported, root / "model")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
    for part in ("anabranch_runtime-", "-cp311-cp311-"):
        run(*pip, root / "site", wheel_named(distributions, part))
    tools, home = Path("/site/anabranch/bin"), {"LD_LIBRARY_PATH": "/site/anabranch"}
    with np.load(exported / "0.npz") as kept:
        for name in ("x", "scale"):
            np.save(root / f"{name}.npy", kept[name])
    command = [tools / "anabranch-run", "/model/model.anb", "--inputs"]
    assert "f32[5, 8]" in inside(root, *command, "/x.npy", "/scale.npy", **home)
    said = inside(root, tools / "anabranch-opt", "--version", **home)
    assert anabranch.__version__ in said
