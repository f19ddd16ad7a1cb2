"""Processes that run one exported package share one copy of its weights."""

from __future__ import annotations

import subprocess
import sys

import torch

import anabranch

# Prints the KiB of the mapped weights: those in memory, and this process's share of
# them. A line on stdin says that all processes have run.
PROGRAM = """
import re, sys, numpy, anabranch
loaded = anabranch.load(sys.argv[1])
loaded(numpy.ones((4, 1024), numpy.float32))
print("ran", flush=True)
sys.stdin.readline()
kept = {"Rss": 0, "Pss": 0}
for line in open("/proc/self/smaps"):
    if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
        weights = line.rstrip().endswith((".bin", ".safetensors"))
    elif weights and line.split(":")[0] in kept:
        kept[line.split(":")[0]] += int(line.split()[1])
print(kept["Rss"], kept["Pss"], flush=True)
sys.stdin.readline()
"""


def test_weights_are_in_memory_once(tmp_path):
    model = torch.nn.Linear(1024, 4096, bias=False).eval()  # 16 MiB
    anabranch.export(model, tmp_path / "package", torch.randn(4, 1024))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "package")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        assert [p.stdout.readline() for p in processes] == ["ran\n"] * 3
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            resident, share = map(int, process.stdout.readline().split())
            assert resident >= 16 * 1024
            assert share <= resident / 3 + 1024
    finally:
        for process in processes:
            process.communicate("\n", timeout=60)
