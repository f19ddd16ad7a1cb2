"""A model that compiles once: later processes start from the cache.

The example starts itself in fresh processes: eager, compiling for the first time, and
from the cache. All give the same results."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

CHILD = "ANABRANCH_EXAMPLE_CHILD"


def child(way: str) -> None:
    """One process: builds a model, calls it once, and prints the result and the times."""
    start = time.perf_counter()
    import torch

    import anabranch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # Nothing is compiled or read here: the first call looks into the cache.
            self.cached = anabranch.cache_compile(self.compute)
            layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(
                layer, 4, enable_nested_tensor=False
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.compute(x) if way == "eager" else self.cached(x)

        def compute(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(x).mean(1)

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(2, 16, 128)
    built = time.perf_counter()
    with torch.no_grad():
        total = model(x).double().abs().sum().item()
    end = time.perf_counter()
    print(f"{total:.3f} {built - start:.2f} {end - built:.3f}")


def main() -> None:
    results = set()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'process':<10}{'build':>10}{'first call':>14}")
        for way in ("eager", "compiles", "cached", "cached"):
            done = subprocess.run(
                [sys.executable, __file__, way],
                env=os.environ | {"ANABRANCH_CACHE_HOME": folder, CHILD: "1"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            total, build, call = done.stdout.split()
            results.add(total)
            print(f"{way:<10}{build:>8} s{call:>12} s")
    print("all results are equal" if len(results) == 1 else f"results: {results}")
    sys.exit(len(results) != 1)


if __name__ == "__main__":
    if CHILD in os.environ:
        child(sys.argv[1])
    else:
        main()
