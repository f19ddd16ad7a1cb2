"""Quantised networks, each engine with the graph that its own tools make:

    python benchmark/quantised_models/engines.py mobilenet resnet50 --threads 1 2

PT2E quantises the network for Anabranch and torchao has to be there; for OpenVINO and
ONNX Runtime the latter's `quantize_static` does, per channel, with bytes without a
sign for activations. Each engine runs in a process of its own, since idle threads of
another one would disturb it, and the processes take turns.
A ratio above one means that Anabranch is faster.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ENGINES = ("anabranch", "openvino", "onnxruntime")
SECONDS_OF_TURN = 0.15


# Files that the engines read


def write_package(name: str, folder: Path) -> None:
    from functools import partial

    import anabranch
    from quantised_models.networks import network
    from quantised_models.pt2e import pt2e

    work = pt2e(partial(network, name))
    anabranch.export(work.function, folder / "anabranch", work.arguments)


def write_onnx(name: str, folder: Path) -> None:
    import torch
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from quantised_models.networks import network

    work = network(name)
    plain, ready = folder / "plain.onnx", folder / "ready.onnx"
    torch.onnx.export(
        work.function,
        work.arguments,
        plain,
        input_names=["x"],
        opset_version=17,
        dynamo=False,
    )

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"x": work.arguments[0].numpy()}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    quant_pre_process(plain, ready)
    quantization.quantize_static(
        ready,
        folder / "bytes.onnx",
        Samples(),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )


# One engine in its process


def runner(engine: str, folder: Path, threads: int) -> Callable[[], object]:
    """A call of the network that the folder has for this engine."""
    import numpy

    from quantised_models.networks import NETWORKS

    shape = NETWORKS[folder.name][1]
    x = numpy.random.standard_normal(shape).astype(numpy.float32)
    path = str(folder / "bytes.onnx")
    if engine == "anabranch":
        import anabranch

        model = anabranch.load(folder / "anabranch", threads=threads)
        return lambda: model(x)
    if engine == "openvino":
        import openvino

        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        request = openvino.compile_model(path, "CPU", settings).create_infer_request()
        request.infer([x])
        return request.infer
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x})


def serve(engine: str, folder: Path, threads: int) -> None:
    """For each line of the standard input, a turn; writes its median time in ms."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    call = runner(engine, folder, threads)
    for _ in range(5):
        call()
    print("ready", flush=True)
    for _ in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + SECONDS_OF_TURN
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(1e3 * statistics.median(times), flush=True)


# All of them


class Worker:
    def __init__(self, engine: str, folder: Path, threads: int) -> None:
        order = [sys.executable, __file__, str(folder), "--threads", str(threads)]
        self.process = subprocess.Popen(
            [*order, "--serve", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            raise RuntimeError(f"{engine} did not start")
        self.process.send_signal(signal.SIGSTOP)

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self) -> float:
        """The median time of a call, in ms. Between turns the process is stopped:
        threads of some engines spin while they wait."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        print(file=self.process.stdin, flush=True)
        taken = float(self._answer())
        self.process.send_signal(signal.SIGSTOP)
        return taken


def compare(folder: Path, threads: int, rounds: int) -> None:
    workers = {engine: Worker(engine, folder, threads) for engine in ENGINES}
    times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(rounds):
        for engine, worker in workers.items():
            times[engine].append(worker.turn())
    for worker in workers.values():
        worker.process.kill()
    for engine, taken in times.items():
        ratio = statistics.median(
            theirs / ours for theirs, ours in zip(taken, times["anabranch"])
        )
        print(
            f"{folder.name:10} {threads} threads  {engine:12}"
            f" {statistics.median(taken):8.3f} ms  ratio {ratio:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve, Path(given.networks[0]), given.threads[0])
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in given.networks:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            folder.mkdir()
            write_package(name, folder)
            write_onnx(name, folder)
            for threads in given.threads:
                compare(folder, threads, given.rounds)
    return None


if __name__ == "__main__":
    main()
