"""A package for each of several ranks, with collectives that its host runs: PyTorch in
Python, and the program of examples/09_ranks in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest
from gloo_ranks import run_ranks

ROOT = Path(__file__).parents[3]
RANKS = 2

SCRIPT = """
import numpy
import torch.distributed._functional_collectives as functional

class Columns(torch.nn.Module):
    '''Each rank has a part of the inner size; then values of all ranks meet.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(rank)
        self.up, self.down = torch.nn.Linear(8, 4), torch.nn.Linear(4, 8)

    def forward(self, x):
        y = self.down(torch.relu(self.up(x)))
        dist.all_reduce(y)
        parts = [torch.empty_like(y) for _ in range(ranks)]
        dist.all_gather(parts, y * (rank + 1))
        z = torch.cat(parts).t().contiguous()
        z = functional.broadcast(z, ranks - 1, dist.group.WORLD)
        return torch.softmax(z, -1)

model = Columns().eval()
x = torch.randn(3, 8)
try:
    anabranch.export(model, f"refused{rank}", (x,))
except anabranch.CompileError as error:
    assert "allow_collectives=True takes them" in str(error), error
    assert "anabranch_c10d::all_reduce at" in str(error), error
else:
    raise AssertionError("collectives need a word")
with torch.no_grad():
    anabranch.export(model, f"package{rank}", (x,), allow_collectives=True)
    package = anabranch.load(f"package{rank}")
    for _ in range(3):
        x = torch.randn(3, 8)
        wanted = model(x)
        torch.testing.assert_close(torch.as_tensor(package(x)), wanted)
x.numpy().tofile(f"input{rank}.bin")
numpy.save(f"wanted{rank}.npy", wanted.numpy())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks")
    run_ranks(path, SCRIPT, RANKS)
    return path


def test_packages_of_ranks_in_python(folder) -> None:
    assert (folder / "package1").is_dir()
    assert not (folder / "refused1").exists()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path, library = tmp_path_factory.mktemp("built") / "ranks", ROOT / "build" / "lib"
    source = ROOT / "examples" / "09_ranks" / "ranks.cpp"
    options = ["-std=c++17", "-I", ROOT / "include", "-L", library]
    link = ["-lanabranch_runtime", f"-Wl,-rpath,{library}"]
    subprocess.run(["c++", *options, source, "-o", path, *link], check=True)
    return path


def test_packages_of_ranks_in_cpp(folder, program) -> None:
    running = [
        subprocess.Popen(
            [program, f"package{r}", str(r), str(RANKS), "socket"]
            + [f"input{r}.bin", f"output{r}.bin"],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(RANKS)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * RANKS, errors
    for r in range(RANKS):
        wanted = numpy.load(folder / f"wanted{r}.npy")
        found = numpy.fromfile(folder / f"output{r}.bin", dtype=numpy.float32)
        numpy.testing.assert_allclose(
            found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6
        )


def test_another_world_is_refused(folder, program) -> None:
    """The package names the ranks of its groups."""
    command = [program, "package0", "0", "1", "alone", "input0.bin", "output.bin"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "all_reduce: no group ranks 0,1 #0" in done.stderr
