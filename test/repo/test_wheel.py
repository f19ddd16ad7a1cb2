"""The wheel runs in a fresh venv where LLVM, MLIR and this build are hidden."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import guide
from repository import ROOT

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


def run(*command: object, **options) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv with the wheel; what else it needs it borrows from this venv."""
    run(sys.executable, ROOT / "scripts" / "wheel.py")
    wheels = sorted((ROOT / "dist").glob("anabranch-*.whl"))
    assert len(wheels) == 1
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--no-deps"]
    run(*pip, *wheels, compat_wheel(folder.parent))
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def compat_wheel(folder: Path) -> Path:
    """Of torchair-compat, built from a copy: the build leaves traces."""
    copy = folder / "torchair-compat"
    shutil.copytree(ROOT / "torchair-compat", copy)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
    run(*pip, "--no-build-isolation", "-w", folder, copy)
    return next(folder.glob("torchair_compat-*.whl"))


def hiding_prefix(empty: Path) -> list[str]:
    """A command prefix under which LLVM and the build do not exist."""
    empty.mkdir(exist_ok=True)
    hidden = ["/usr/lib/llvm-19", str(ROOT / "build")]
    libraries = Path("/usr/lib/x86_64-linux-gnu")
    files = [*libraries.glob("libLLVM*.so*"), *libraries.glob("libMLIR*.so*")]
    script = [f"mount --bind {empty} {folder}" for folder in hidden]
    script += [f"mount --bind /dev/null {name}" for name in files if name.is_file()]
    script.append('exec "$@"')
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["-r"])]
    prefix = [*unshare, "sh", "-ec", "\n".join(script), "sh"]
    possible = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    if possible.returncode:
        pytest.skip("this machine lets us make no mount namespace")
    return prefix


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


def test_links_only_the_system(installed: Path) -> None:
    package = next(installed.glob("lib/python*/site-packages/anabranch"))
    allowed = ("libstdc++", "libm.", "libgcc_s", "libc.", "ld-linux", "linux-vdso")
    for library in package.glob("*.so"):
        for line in run(shutil.which("ldd"), library).splitlines():
            name = Path(line.split()[0]).name
            assert name.startswith((*allowed, "libanabranch_runtime")), line
