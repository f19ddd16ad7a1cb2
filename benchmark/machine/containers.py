"""MiniLM in containers with a CPU quota: default threads beside fixed ones and peers.

    containers.py --quota 1.5           one process in a group with 1.5 CPUs
    containers.py --busy                no quota, another process computes all the time
    containers.py --processes 8         as many processes at the same time

It needs root and control groups of version 1, in which it makes a group of its own.
Each contender is a process that runs for `--seconds`; rounds take turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000
# Engines and their threads; 0 is the engine's own choice.
CONTENDERS = (
    *(("anabranch", 0), ("anabranch", 1), ("anabranch", 2)),
    *(("onnxruntime", 1), ("onnxruntime", 2), ("openvino", 1), ("openvino", 2)),
)


def prepare(folder: Path) -> None:
    """Writes the model for each engine, and its inputs."""
    import torch

    import anabranch
    import models
    from peers import exported

    made = models.minilm()
    with torch.no_grad():
        anabranch.export(made.function, folder / "anabranch", made.arguments)
        program = torch.onnx.export(
            exported(made.function, made.arguments), dynamo=True, verbose=False
        )
        assert program is not None
        program.save(folder / "model.onnx")
    arrays = {str(i): value.numpy() for i, value in enumerate(made.arguments)}
    numpy.savez(folder / "inputs.npz", **arrays)


def anabranch_call(folder: Path, threads: int, inputs: list) -> Callable[[], object]:
    import anabranch

    package = anabranch.load(folder / "anabranch", threads=threads)
    return lambda: package(*inputs)


def onnxruntime_call(folder: Path, threads: int, inputs: list) -> Callable[[], object]:
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = engine.InferenceSession(folder / "model.onnx", options)
    names = [value.name for value in session.get_inputs()]
    given = dict(zip(names, inputs, strict=True))
    return lambda: session.run(None, given)


def openvino_call(folder: Path, threads: int, inputs: list) -> Callable[[], object]:
    import openvino as engine

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    model = engine.compile_model(folder / "model.onnx", "CPU", settings)
    request = model.create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)


CALLS = {
    "anabranch": anabranch_call,
    "onnxruntime": onnxruntime_call,
    "openvino": openvino_call,
}


def work(folder: Path, engine: str, threads: int, seconds: float) -> None:
    """Prints how long each call took, in milliseconds."""
    with numpy.load(folder / "inputs.npz") as kept:
        inputs = [kept[name] for name in kept.files]
    call = CALLS[engine](folder, threads, inputs)
    call()
    print("ready", flush=True)
    sys.stdin.readline()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps(times))


@contextmanager
def group(quota: float | None) -> Iterator[list[str]]:
    """The arguments by which a child enters a new group with this quota."""
    if quota is None:
        yield []
        return
    folder = GROUPS / f"anabranch-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(int(quota * PERIOD_US)))
        yield ["--join", str(folder / "cgroup.procs")]
    finally:
        folder.rmdir()


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    import models

    if not wanted:
        yield
        return
    with models.one_busy_core():
        yield


def run(folder: Path, engine: str, threads: int, options: argparse.Namespace) -> list:
    """The times of the calls of each process."""
    command = [sys.executable, __file__, "--work", str(folder), engine, str(threads)]
    command += ["--seconds", str(options.seconds)]
    with group(options.quota) as joining:
        children = [
            subprocess.Popen(
                command + joining,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(options.processes)
        ]
        for child in children:
            assert child.stdout and child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate()[0] for child in children]
    return [json.loads(text) for text in said]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--join", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="keeps the models for other runs")
    parser.add_argument("--quota", type=float, help="CPUs of the group")
    parser.add_argument("--busy", action="store_true", help="beside a busy process")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="contenders whose name has this")
    options = parser.parse_args()
    if options.join:
        options.join.write_text(str(os.getpid()))
    if options.work:
        folder, engine, threads = options.work
        work(Path(folder), engine, int(threads), options.seconds)
        return
    folder = options.folder or Path(tempfile.mkdtemp())
    if not (folder / "inputs.npz").exists():
        folder.mkdir(exist_ok=True)
        prepare(folder)
    times: dict[str, list[list[float]]] = {}
    rates: dict[str, list[float]] = {}
    with busy(options.busy):
        for _ in range(options.rounds):
            for engine, threads in CONTENDERS:
                name = f"{engine} {threads or 'default'}"
                if options.only in name:
                    found = run(folder, engine, threads, options)
                    times.setdefault(name, []).append(
                        [t for process in found for t in process]
                    )
                    rates.setdefault(name, []).append(
                        sum(map(len, found)) / options.seconds
                    )
    print(f"{'':22}  p50 ms  mean ms  p99 ms  calls/s")
    for name, rounds in times.items():
        # The better round: other work of the machine makes a round worse only.
        best = min(rounds, key=statistics.fmean)
        p99 = sorted(best)[int(len(best) * 0.99)]
        print(
            f"{name:22} {statistics.median(best):7.1f} {statistics.fmean(best):8.1f}"
            f" {p99:7.1f} {max(rates[name]):8.1f}"
        )


if __name__ == "__main__":
    main()
