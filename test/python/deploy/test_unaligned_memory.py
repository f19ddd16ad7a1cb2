"""Arguments whose memory is not aligned to their dtype: a mapped file, a socket's bytes."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from checking import compiled

import anabranch

ROOT = Path(__file__).resolve().parents[3]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.complex64]
OFFSETS = [0, 1, 2]


def askew(tensor, offset):
    """The same values and strides, in memory that begins `offset` bytes further."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    memory = bytearray(extent * tensor.element_size() + offset)
    found = torch.frombuffer(memory, dtype=tensor.dtype, offset=offset)
    return found.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def random(dtype, *shape):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    return torch.randint(-9, 9, shape, dtype=dtype)


def copied():
    return anabranch.last_report()["copied_arguments"]


def both(run, offset, *arguments):
    """The results for aligned arguments and for arguments that are not."""
    return run(*arguments), run(*(askew(value, offset) for value in arguments))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inputs_of_any_strides(dtype, offset, dynamic):
    def function(x, y):
        return x * 2 + y, x.sum(0), torch.flip(y, (0,))

    x, y = random(dtype, 6, 5), random(dtype, 5, 6).t()
    run = compiled(function, dynamic=dynamic)
    for found, wanted in zip(*both(run, offset, x, y)):
        assert torch.equal(found, wanted)
    # Where strides are symbolic, PyTorch makes the transposed argument contiguous.
    assert copied() == (offset % dtype.itemsize != 0) * (1 if dynamic else 2)
    for found, wanted in zip(run(askew(x, offset), y), function(x, y)):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kept", ["frozen", "watched", "live"])
def test_weights(kept, dtype, offset):
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 8))
    model = model.eval().to(dtype)
    x = torch.randn(4, 32).to(dtype)
    wanted = model(x)
    for layer in model:
        layer.weight = torch.nn.Parameter(askew(layer.weight.detach(), offset))
    options = {"freeze": kept == "frozen", "watch": kept == "watched"}
    run = compiled(model, options=options)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), wanted, rtol=2e-2, atol=2e-2)
    # A call copies weights that it reads, and one that packs weights those that it packs.
    calls = {"frozen": 0, "watched": 1, "live": 3}[kept]
    assert copied() == (offset % dtype.itemsize != 0) * 2 * calls


@pytest.mark.parametrize("offset", [1, 2])
def test_updates_reach_the_argument_and_nothing_else(offset):
    def update(x, y):
        x.add_(y)
        return x * 2

    memory = torch.full((200,), 77, dtype=torch.uint8)
    x = memory.numpy()[offset : offset + 160].view(np.float32)
    x = torch.from_numpy(x).as_strided((4, 5), (10, 2))
    x.copy_(torch.arange(20.0).view(4, 5))
    gaps = memory.clone()
    wanted = x.clone()
    run = compiled(update)
    for _ in range(3):
        found, expected = run(x, torch.ones(4, 5)), update(wanted, torch.ones(4, 5))
        assert torch.equal(found, expected)
        assert torch.equal(x, wanted)
    changed = (memory != gaps).nonzero().flatten() - offset
    assert all(place % 8 < 4 for place in changed.tolist())


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_read_only_map_is_read(offset, tmp_path):
    weight = torch.randn(16, 8)
    (tmp_path / "weights").write_bytes(bytes(offset) + weight.numpy().tobytes())
    with open(tmp_path / "weights", "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    mapped = np.ndarray((16, 8), np.float32, memory, offset)
    held = torch.from_numpy(mapped)
    x = torch.randn(3, 16)
    for options in ({"watch": False}, {"watch": True}, {"freeze": True}):
        torch._dynamo.reset()
        run = compiled(lambda x, held: torch.relu(x @ held), options=options)
        torch.testing.assert_close(run(x, held), torch.relu(x @ weight))


def test_operators_of_pytorch_get_aligned_memory():
    def function(x):
        return torch.special.bessel_j0(x * 2), torch.special.bessel_j1(x)

    run = compiled(function)
    for found, wanted in zip(*both(run, 1, torch.randn(9))):
        assert torch.equal(found, wanted)
    assert len(anabranch.last_report()["fallbacks"]) == 2


@pytest.mark.parametrize("offset", OFFSETS)
def test_packages_of_tensors_and_of_arrays(offset, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 8)

        def forward(self, x, y):
            return self.linear(x) + y

    x, y = torch.randn(4, 16), torch.randn(8)
    model = Model().eval()
    anabranch.export(model, tmp_path / "model.anb", (x, y))
    package = anabranch.load(tmp_path / "model.anb")
    aligned, found = both(package, offset, x, y)
    assert torch.equal(aligned, found)
    arrays = [askew(value, offset).numpy() for value in (x, y)]
    assert all(array.flags.aligned == (offset == 0) for array in arrays)
    np.testing.assert_array_equal(package(*arrays), aligned.numpy())


def test_gears_pad_arguments_that_are_not_aligned():
    x = torch.randn(8, 5)
    anabranch.set_gears(x, {0: [4, 8]})
    config = anabranch.Config(gears_pad=True)
    run = anabranch.compile(lambda x: torch.relu(x) * 3, config=config, fullgraph=True)
    for rows in (8, 7, 4, 2):
        aligned, found = both(run, 3, x if rows == 8 else torch.randn(rows, 5))
        assert torch.equal(aligned, found)


CALL = """
import sys, numpy, anabranch_runtime
folder, offset = sys.argv[1], int(sys.argv[2])
package = anabranch_runtime.load(folder + "/model.anb")
x = numpy.load(folder + "/x.npy")
memory = bytearray(offset) + bytearray(x.tobytes())
found = package(numpy.ndarray(x.shape, x.dtype, memory, offset))
numpy.testing.assert_array_equal(found, package(x))
assert memory[offset:] == x.tobytes()
print("done")
"""


@pytest.mark.parametrize("offset", [1, 2])
def test_the_runtime_alone(offset, tmp_path):
    x = torch.randn(6, 7)
    model = torch.nn.Linear(7, 3).eval()
    anabranch.export(model, tmp_path / "model.anb", (x,))
    np.save(tmp_path / "x.npy", x.numpy())
    alone = tmp_path / "anabranch_runtime"
    alone.mkdir()
    for source in (ROOT / "python" / "anabranch_runtime").glob("*.py"):
        (alone / source.name).symlink_to(source.resolve())
    (alone / "lib").symlink_to(ROOT / "build" / "lib")
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(tmp_path), str(offset)],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout == "done\n", done.stderr
