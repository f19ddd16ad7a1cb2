"""A package that the wheels run, and a script that calls it from NumPy."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

import anabranch


class Model(nn.Module):
    """A model with state, a nested result, symbolic sizes and a dtype that NumPy lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, scale):
        self.calls += 1
        y = torch.softmax(self.linear(x) * scale[:, None], -1)
        return {"y": y, "parts": [y.sum(0), y.argmax(-1)], "calls": self.calls}


def export(folder: Path) -> Path:
    """A package for this machine and for 64-bit Arm, and eager PyTorch's results for two
    inputs."""
    model = Model().eval()
    rows = torch.export.Dim("rows", min=2, max=64)
    inputs = torch.randn(5, 16), torch.rand(5)
    shapes = {"x": {0: rows}, "scale": {0: rows}}
    anabranch.export(
        *(model, folder / "model.anb", inputs),
        dynamic_shapes=shapes,
        targets=["native", "aarch64"],
    )
    for number, count in enumerate((5, 12)):
        x, scale = torch.randn(count, 16), torch.rand(count)
        with torch.no_grad():
            wanted = model(x, scale)
        np.savez(
            folder / f"{number}.npz",
            x=x,
            scale=scale,
            y=wanted["y"],
            sum=wanted["parts"][0],
            best=wanted["parts"][1],
        )
    return folder


# Its words: the module, and the folder of `export`.
CALL = """
import sys, numpy
module = __import__(sys.argv[1])
folder = sys.argv[2]
package = module.load(folder + "/model.anb", threads=2)
for number in range(2):
    kept = numpy.load(f"{folder}/{number}.npz")
    result = package(kept["x"], scale=kept["scale"])
    numpy.testing.assert_allclose(result["y"], kept["y"], atol=1e-6, rtol=1e-5)
    numpy.testing.assert_allclose(result["parts"][0], kept["sum"], atol=1e-5, rtol=1e-5)
    assert (result["parts"][1] == kept["best"]).all()
    assert result["calls"] == number + 1 == package.state["calls"]
assert package.session().state["calls"] == 0
# A transposed input is laid out anew; strides that step backwards too.
x = numpy.asfortranarray(kept["x"])
assert (package(x, kept["scale"])["y"] == result["y"]).all()
flipped = package(kept["x"][::-1], kept["scale"][::-1].copy())["y"]
numpy.testing.assert_allclose(flipped, result["y"][::-1], atol=1e-6)
for arguments, kind, text in [
    ((kept["x"].astype("f8"), kept["scale"]), TypeError, "f64"),
    ((kept["x"][:1], kept["scale"][:1]), ValueError, "2"),
    ((kept["x"],), TypeError, "'scale' is missing"),
    ((kept["x"], "text"), TypeError, "expected an array"),
    ((kept["x"], 3), TypeError, "got an int"),
]:
    try:
        package(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind} about {text}")
try:
    module.load(folder)
except (RuntimeError, OSError) as error:
    assert "manifest" in str(error), error
assert "torch" not in sys.modules
print("done")
"""
