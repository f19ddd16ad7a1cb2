"""A Python without PyTorch runs a package on NumPy arrays."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import anabranch

ROOT = Path(__file__).resolve().parents[3]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return {"y": torch.relu(self.linear(x)), "calls": self.calls}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a fresh venv that has NumPy and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    source = Path(np.__file__).resolve().parents[1]
    for name in ("numpy", "numpy.libs"):
        if (source / name).exists():
            (packages / name).symlink_to(source / name)
    return folder / "bin/python"


def run(python, script, *arguments):
    done = subprocess.run(
        [str(python), "-c", script, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_go_in_and_out(python, tmp_path):
    model = Model().eval()
    x = torch.randn(3, 16)
    anabranch.export(model, tmp_path / "p", x)
    np.save(tmp_path / "x.npy", x.numpy())
    script = """
import sys, numpy, anabranch
folder = sys.argv[1]
package = anabranch.load(folder + "/p")
x = numpy.load(folder + "/x.npy")
package(x)
result = package(x=x)
assert result["calls"] == 2 and package.state["calls"] == 2
numpy.save(folder + "/y.npy", result["y"])
try:
    package(x.astype("f8"))
except TypeError as error:
    print(error)
print(anabranch.Config().threads)
assert "torch" not in sys.modules
try:
    anabranch.compile
except ImportError as error:
    print(error.name)
    print(error)
"""
    said = run(python, script, tmp_path).splitlines()
    assert "expected dtype f32, got f64" in said[0]
    assert said[1:3] == ["0", "torch"]
    assert "this Python has no torch: pip install 'torch>=2." in said[3]
    with torch.no_grad():
        wanted = model(x)["y"]
    torch.testing.assert_close(torch.as_tensor(np.load(tmp_path / "y.npy")), wanted)


def test_operators_of_pytorch_are_named(python, tmp_path):
    class Bessel(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    anabranch.export(
        Bessel().eval(), tmp_path / "p", torch.ones(8), allow_libtorch=True
    )
    script = """
import sys, anabranch
try:
    anabranch.load(sys.argv[1])
except RuntimeError as error:
    print(error)
"""
    said = run(python, script, tmp_path / "p")
    assert "the package needs PyTorch for: aten::special_bessel_j0" in said


def test_loading_imports_no_pytorch_where_it_is(tmp_path):
    anabranch.export(nn.ReLU().eval(), tmp_path / "p", torch.ones(8))
    script = """
import sys, numpy, anabranch
package = anabranch.load(sys.argv[1])
package(numpy.ones(8, "f4"))
assert "torch" not in sys.modules
import torch
print(package(torch.ones(8)).sum().item())
"""
    assert run(sys.executable, script, tmp_path / "p").split() == ["8.0"]
