"""What a process keeps once a model is compiled."""

from __future__ import annotations

import subprocess
import sys

# Runs alone: libraries that other tests have touched would be counted.
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
    """Tens of MiB while compiling; what is left is what returning touches."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 * 1024, f"{done.stdout.strip()} KiB of code"
