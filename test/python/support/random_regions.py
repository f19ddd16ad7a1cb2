"""Runs random programs with branches, loops, masks, items and updates, and compares them
with PyTorch.

    python test/python/support/random_regions.py --count 1000

Each program is one program of Anabranch for all data, or PyTorch refuses it, too. A third
of them are packages, which Python runs, and those of f32 that call no PyTorch also the
runner in C++."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import linecache
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from random_region_lines import COLUMNS, write
from torch._dynamo.exc import TorchDynamoException
from torch._higher_order_ops import scan, while_loop

import anabranch

# Sizes of zero and one, of a few, and of more than one tile. A dynamic program has the
# rows of one entry in turns, and begins with a size that Dynamo takes for any.
STATIC_ROWS = (0, 1, 2, 5, 5, 6, 300)
DYNAMIC_ROWS = ((5, 7, 4), (5, 300, 2), (6, 1, 5), (4, 0, 6))

RIGHT, WRONG, CUT, REFUSED = "right", "wrong", "cut", "refused by PyTorch"
RUNNER = Path(__file__).resolve().parents[3] / "build" / "bin" / "anabranch-run"
SETTINGS = {
    "capture_dynamic_output_shape_ops": True,
    "capture_scalar_outputs": True,
}


@torch.library.custom_op("random_regions::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    x += 1


@dataclasses.dataclass(frozen=True)
class Program:
    seed: int
    text: str
    dtype: torch.dtype
    rows: tuple[int, ...]  # of each call; several only if the sizes are dynamic
    dynamic: bool
    strided: bool
    packaged: bool

    def function(self) -> Callable[..., Any]:
        name = f"<random program {self.seed}>"
        linecache.cache[name] = (
            len(self.text),
            None,
            self.text.splitlines(True),
            name,
        )
        scope = {"torch": torch, "scan": scan, "while_loop": while_loop}
        exec(compile(self.text, name, "exec"), scope)  # noqa: S102
        return scope["program"]

    def calls(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Arguments with random numbers, with none above zero, and with all above it."""
        generator = torch.Generator().manual_seed(self.seed)
        found = []
        for number, low, high in ((0, -8, 9), (1, -2, 1), (2, 1, 3), (3, -8, 9)):
            shape = (self.rows[number % len(self.rows)], COLUMNS)
            given = [
                torch.randint(low, high, shape, generator=generator).to(self.dtype)
                for _ in range(2)
            ]
            if self.strided:
                given[0] = given[0].t().contiguous().t()
            found.append((given[0], given[1]))
        return found


def program_of(seed: int) -> Program:
    rng = random.Random(-seed - 1)
    dynamic = rng.random() < 0.4
    dtype = rng.choice([torch.float32, torch.bfloat16])
    rows = rng.choice(DYNAMIC_ROWS) if dynamic else (rng.choice(STATIC_ROWS),)
    return Program(
        seed,
        write(seed),
        dtype,
        rows,
        dynamic,
        rng.random() < 0.3,
        # torch.export takes a size that varies for one of two or more.
        rng.random() < 0.3 and (not dynamic or min(rows) > 1),
    )


class Module(torch.nn.Module):
    """The program as a module, which torch.export takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


class BothWays:
    """A backend that runs each graph by PyTorch and by Anabranch, and keeps what differs.
    So Dynamo, which takes most of the time, traces a program once."""

    def __init__(self) -> None:
        self.differences: list[str] = []
        # What PyTorch's own run of the graph refused.
        self.refusal = ""
        self.reached = False  # whether Dynamo traced the program
        self.calls = 0

    def __call__(
        self, module: torch.fx.GraphModule, inputs: list[Any]
    ) -> Callable[..., Any]:
        self.reached = True
        plain = copy.deepcopy(module)
        ours = anabranch.anabranch(module, inputs)

        def run(*given: Any) -> Any:
            copies = [_copied(v) if torch.is_tensor(v) else v for v in given]
            try:
                wanted = plain(*copies)
            except Exception as error:
                self.refusal = str(error)
                raise
            got = ours(*given)
            for place, pair in enumerate(zip([*got, *given], [*wanted, *copies])):
                if text := _difference(*pair):
                    self.differences.append(f"call {self.calls}, value {place}: {text}")
            self.calls += 1
            return got

        return run


def compiled_with(program: Program, backend: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(
        program.function(), backend=backend, fullgraph=True, dynamic=program.dynamic
    )


def exported(program: Program) -> str:
    """The folder of the package."""
    folder = os.path.join(tempfile.mkdtemp(), "package")
    arguments = tuple(value.clone() for value in program.calls()[0])
    rows = torch.export.Dim("rows", min=2, max=512) if program.dynamic else None
    shapes = {"x": {0: rows}, "y": {0: rows}} if program.dynamic else None
    anabranch.export(
        Module(program.function()).eval(),
        folder,
        arguments,
        dynamic_shapes=shapes,
        allow_libtorch=True,
    )
    return folder


def run_by_cpp(program: Program, path: str, wanted: Callable[..., Any]) -> list[str]:
    """What differs in the results of the runner in C++. It has no bf16 and no
    PyTorch."""
    with open(os.path.join(path, "manifest.json")) as manifest:
        if json.load(manifest)["needs_libtorch"] or program.dtype != torch.float32:
            return []
    found = []
    for number, arguments in enumerate(program.calls()):
        files = [os.path.join(path, f"../input{i}.npy") for i in range(2)]
        for file, value in zip(files, arguments):
            np.save(file, value.contiguous().numpy())
        folder = os.path.dirname(path)
        command = [str(RUNNER), path, "--output-dir", folder, "--inputs", *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"call {number} from C++: {done.stderr}"]
        for place, want in enumerate(wanted(*map(_copied, arguments))):
            file = f"{folder}/output{place}.npy"
            if not os.path.exists(file):
                continue  # the result is an argument, which the runner does not write
            got = torch.from_numpy(np.load(file))
            number_or_tensor = got if isinstance(want, torch.Tensor) else got.item()
            if text := _difference(number_or_tensor, want):
                found.append(f"call {number} from C++, value {place}: {text}")
    return found


def differences(
    program: Program, theirs: Callable[..., Any], ours: Callable[..., Any]
) -> list[str]:
    """What differs in results and in arguments, call by call."""
    found = []
    for number, arguments in enumerate(program.calls()):
        given = [tuple(map(_copied, arguments)) for _ in range(2)]
        wanted = theirs(*given[0])
        got = ours(*given[1])
        for place, pair in enumerate(zip([*got, *given[1]], [*wanted, *given[0]])):
            if text := _difference(*pair):
                found.append(f"call {number}, value {place}: {text}")
    return found


def _copied(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value).copy_(value)


def _difference(got: Any, want: Any) -> str:
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got}, not {want}"
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    return "" if torch.equal(got, want) else f"{got}, not {want}"


def outcome(program: Program) -> tuple[str, str]:
    """How the program fares, and what went wrong."""
    both = BothWays()
    with torch._dynamo.config.patch(SETTINGS), torch.no_grad():
        try:
            run = compiled_with(program, both)
            for arguments in program.calls():
                run(*map(_copied, arguments))
            found = both.differences
            report = anabranch.last_report() or {}
            if program.packaged and not found:
                found = package_differences(program, run)
        except anabranch.CompileError as error:
            # torch.export refuses some programs that Dynamo takes, and so do packages.
            return (REFUSED if "export" in str(error) else WRONG), str(error)
        except Exception as error:  # noqa: BLE001
            text = both.refusal or traceback.format_exc()[-3000:]
            by_dynamo = isinstance(error, TorchDynamoException) and not both.reached
            is_theirs = by_dynamo or bool(both.refusal) or is_refused(program)
            return (REFUSED if is_theirs else WRONG), text
        if found:
            return (REFUSED if is_refused(program) else WRONG), "\n".join(found)
    reason = report.get("reason") or report.get("eager", "")
    whole = report.get("parts") == 1 and not reason
    return (RIGHT, "") if whole else (CUT, f"{reason}: {report.get('outside')}")


def package_differences(program: Program, run: Callable[..., Any]) -> list[str]:
    """What differs in the results of the package, from Python and from C++. `run` has
    PyTorch's results."""
    path = exported(program)
    try:
        found = differences(program, run, anabranch.load(path))
        return found + run_by_cpp(program, path, run)
    finally:
        shutil.rmtree(os.path.dirname(path))


def is_refused(program: Program) -> bool:
    """Whether PyTorch's own trace fails, too, or loses a write."""
    try:
        wanted = compiled_with(program, "eager")
        if differences(program, wanted, compiled_with(program, "aot_eager")):
            return True
        if program.packaged:
            given = tuple(map(_copied, program.calls()[0]))
            module = Module(program.function())
            torch.export.export(module, given).run_decompositions()
    except Exception:  # noqa: BLE001
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--show", action="store_true", help="print each program")
    options = parser.parse_args()
    os.environ.setdefault("ANABRANCH_CACHE", "0")
    logging.disable(logging.ERROR)  # what PyTorch's trace refuses is no finding
    start = time.monotonic()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > options.seconds:
            break
        program = program_of(seed)
        what, text = outcome(program)
        counts[what] += 1
        if sum(counts.values()) % 100 == 0:
            print(dict(counts), f"{time.monotonic() - start:.0f} s", flush=True)
        if what in (WRONG, CUT) or options.show:
            print(f"==== seed {seed}: {what}\n{program}\n{program.text}{text}\n")
            sys.stdout.flush()
    print(dict(counts), f"{time.monotonic() - start:.0f} s")
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
