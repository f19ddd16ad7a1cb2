"""The wheel runs in a fresh venv where LLVM, MLIR and this build are hidden."""

import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import guide
from repository import ROOT
from wheel_support import hiding_prefix, run, wheel_named

pytestmark = pytest.mark.slow

USE = """
import torch, anabranch
from torch import nn
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32)).eval()
compiled = torch.compile(model, backend="anabranch")
x = torch.randn(4, 16)
with torch.no_grad():
    torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
assert anabranch.counters.kernels > 0
maps = open("/proc/self/maps").read()
assert "site-packages/anabranch/libanabranch_compiler.so" in maps
assert "libLLVM" not in maps and "libMLIR" not in maps
print("ran from", anabranch.__file__)
"""


@pytest.fixture(scope="module")
def installed(
    distributions: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A venv with the wheel. It borrows other packages from this venv."""
    wheel = wheel_named(distributions, "-cp311-cp311-")
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--no-deps"]
    run(*pip, wheel, compat_wheel(folder.parent))
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def compat_wheel(folder: Path) -> Path:
    """The wheel of torchair-compat, built from a copy, since the build leaves files."""
    copy = folder / "torchair-compat"
    shutil.copytree(ROOT / "torchair-compat", copy)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
    run(*pip, "--no-build-isolation", "-w", folder, copy)
    return next(folder.glob("torchair_compat-*.whl"))


def test_runs_without_llvm(installed: Path, tmp_path: Path) -> None:
    prefix = hiding_prefix(tmp_path)
    elsewhere = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}}
    output = run(*prefix, "ls", "/usr/lib/llvm-19", **elsewhere)
    assert not output.strip()
    output = run(*prefix, installed / "bin" / "python", "-c", USE, **elsewhere)
    assert str(installed) in output
    output = run(*prefix, installed / "bin" / "anabranch", "ops", **elsewhere)
    assert "operators" in output


@pytest.mark.parametrize("page", guide.PAGES, ids=lambda page: page.name[:3])
def test_scripts_of_the_user_guide(installed: Path, tmp_path: Path, page: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(guide.script(page) + guide.CHECK, encoding="utf-8")
    output = run(
        *hiding_prefix(tmp_path / "empty"),
        *(installed / "bin" / "python", "-W", "error::UserWarning", script),
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    guide.check_output(output)
    guide.check_dumps(tmp_path)


def test_tools_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    """anabranch-opt runs with the wheel's own library."""
    module = tmp_path / "module.mlir"
    module.write_text("func.func @nothing() { return }\n")
    prefix = hiding_prefix(tmp_path / "empty")
    output = run(*prefix, installed / "bin" / "anabranch-opt", module)
    assert "func.func @nothing()" in output
    package = next(installed.glob("lib/python*/site-packages/anabranch"))
    assert "workers" in run(*prefix, package / "bin" / "anabranch-run", "--machine")
