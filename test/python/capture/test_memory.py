"""The memory that a process needs to compile a model, and that it keeps after."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Runs in a process of its own, without libraries that other tests have touched.
PROGRAM = """
import re, torch, anabranch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32)).eval()
compiled = torch.compile(model, backend=anabranch.anabranch, dynamic=False)
with torch.no_grad():
    for rows in (4, 5):  # the second compiles with code that was given back
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x), model(x))
assert anabranch.counters.graphs == 2, anabranch.counters
library = re.compile(r"lib(anabranch_compiler|MLIR|LLVM)[^/]*$")
kept = read = 0
for line in open("/proc/self/smaps"):
    if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
        fields = line.split()
        found = len(fields) > 5 and library.search(fields[5])
        read += bool(found)
        constant = bool(found) and "x" in fields[1]
    elif line.startswith("Rss:") and constant:
        kept += int(line.split()[1])
assert read, "the compiler library is not mapped"
print(kept)
"""


def test_code_of_the_compiler_leaves_memory() -> None:
    """The compiler's code takes tens of MiB. After it returns, a small part stays."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 * 1024, f"{done.stdout.strip()} KiB of code"


MODEL = """
import os, re, sys, torch, anabranch
def peak():  # MiB
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) // 1024
class All(torch.nn.Module):
    def __init__(self, count, rows):
        super().__init__()
        layers = [torch.nn.Linear(4096, rows, bias=False) for _ in range(count)]
        self.layers = torch.nn.ModuleList(layers)
    def forward(self, x):
        return sum(layer(x).sum(-1) for layer in self.layers)
"""

PEAK = (
    MODEL
    + """
layers, x = All(8, 2048), torch.randn(4, 4096)
with torch.no_grad():
    expected = layers(x)
    if sys.argv[1] != "eager":
        config = anabranch.Config(freeze=sys.argv[1] == "frozen" or sys.argv[1])
        compiled = anabranch.compile(layers, config=config, dynamic=False)
        torch.testing.assert_close(compiled(x), expected, rtol=1e-3, atol=1e-3)
print(peak())
"""
)


def output_of(program: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def eager_peak() -> int:
    return int(output_of(PEAK, "eager"))


def test_weights_are_packed_one_by_one(tmp_path: Path) -> None:
    """The peak is a second copy of the weights, the largest of them, and the compiler."""
    home = {"ANABRANCH_CACHE_HOME": str(tmp_path)}
    for _ in range(2):  # compiled, then from the cache
        frozen = int(output_of(PEAK, "frozen", **home))
        assert frozen - eager_peak() <= 8 * 32 + 32 + 200


def test_moved_weights_are_in_memory_once(tmp_path: Path) -> None:
    """The peak has the packed weights or the live ones, the largest of them, and the
    compiler."""
    home = {"ANABRANCH_CACHE_HOME": str(tmp_path)}
    for _ in range(2):  # compiled, then from the cache
        moved = int(output_of(PEAK, "move", **home))
        assert moved - eager_peak() <= 32 + 200


TRANSPOSED = """
for layer in layers.layers:  # as a product with the weight reads it
    weight = layer.weight.detach().t().contiguous().t()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
"""


def test_weights_that_are_not_contiguous_are_copied_one_by_one(tmp_path: Path) -> None:
    home = {"ANABRANCH_CACHE_HOME": str(tmp_path)}
    program = PEAK.replace("with torch", TRANSPOSED + "with torch", 1)
    eager = int(output_of(program, "eager", **home))
    for _ in range(2):  # compiled, then from the cache
        frozen = int(output_of(program, "frozen", **home))
        assert frozen - eager <= 8 * 32 + 32 + 200


@contextlib.contextmanager
def memory_group(mib: int):
    """A new control group with this limit, as its file of process ids: a process that
    is written there enters the group."""
    name = f"anabranch-test-{os.getpid()}"
    places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
    places.append(("/sys/fs/cgroup", "memory.max"))
    for root, limit in places:
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(mib << 20))
        except OSError:
            group.rmdir()
            continue
        try:
            yield group / "cgroup.procs"
        finally:
            group.rmdir()
        return
    pytest.skip("this process may make no group with a memory limit")


LIMITED = (
    MODEL
    + """
layers, x = All(8, 4096), torch.randn(4, 4096)
with torch.no_grad():
    layers(x)
    open(sys.argv[1], "w").write(str(os.getpid()))
    config = anabranch.Config(freeze=True)
    try:
        anabranch.compile(layers, config=config, dynamic=False)(x)
    except MemoryError as error:
        print(error)
"""
)


def test_a_limit_that_is_too_small_is_named(tmp_path: Path) -> None:
    """The call is an error with both sizes: the kernel does not end the process."""
    with memory_group(384) as group:
        said = output_of(LIMITED, str(group), ANABRANCH_CACHE_HOME=str(tmp_path))
    needed = re.search(r"need (\d+) MiB", said)
    # The panel of the last columns may have padding.
    assert needed and 512 <= int(needed[1]) <= 520, said
    assert "of the 384 MiB that" in said
