"""Starts the service, loads it, and prints the measurements.

measure.py engines --seconds 10     latency and throughput on each engine measure.py
reload                   a new package under load: no request is lost measure.py memory
the weights' pages of two replicas"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import load
from app import cluster, deploy
from engines import NAMES, available, prepare

MOST_SECONDS = 180  # seconds that clients wait for a reload


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def measure_engines(folder: str, seconds: float, clients: list[int]) -> None:
    """Measures each engine by itself. Between two engines the service is empty."""
    print(f"{'engine':<12} clients  answers/s   p50 ms   p99 ms  errors", flush=True)
    names = [name for name in NAMES if available(name)]
    for name in names:
        path = prepare(name, folder)
        with cluster(free_port()) as url:
            deploy(name, path)
            asyncio.run(load.run(url, max(clients), min(3, seconds)))
            for count in clients:
                seen = asyncio.run(load.run(url, count, seconds))
                print(
                    f"{name:<12} {count:7}  {seen.rate:9.1f} {seen.percentile(0.5):8.2f}"
                    f" {seen.percentile(0.99):8.2f} {len(seen.errors):7}",
                    flush=True,
                )
    for name in set(NAMES) - set(names):
        print(f"{name:<12} is not installed: requirements/peers.txt")


def reload_under_load(folder: str, seconds: float) -> dict[str, Any]:
    """Replaces the package while clients send requests. They also send `seconds` before
    and after."""
    first = prepare("anabranch", folder)
    second = os.path.join(folder, "second")
    os.mkdir(second)
    second = prepare("anabranch", second)
    with cluster(free_port()) as url:
        deploy("anabranch", first)

        async def both() -> load.Load:
            stop = asyncio.Event()
            asking = asyncio.create_task(load.run(url, 8, MOST_SECONDS, stop))
            await asyncio.sleep(seconds)
            await asyncio.to_thread(deploy, "anabranch", second)
            await asyncio.sleep(seconds)
            stop.set()
            return await asking

        seen = asyncio.run(both())
    names = {first: "first", second: "second"}
    return {
        "answers": len(seen.times),
        "errors": seen.errors,
        "began": names[seen.packages[0]],
        "ended": names[seen.packages[-1]],
    }


def shared_weights(folder: str) -> dict[str, Any]:
    """How much of the package's weights each replica has in memory, and its share (Pss)
    of the pages that all replicas map."""
    package = prepare("anabranch", folder)
    with cluster(free_port()) as url:
        deploy("anabranch", package)
        asyncio.run(load.run(url, 8, 3))
        rows = [_mapped(process, package) for process in _processes()]
    rows = [row for row in rows if row["Rss"]]
    return {"replicas": rows, "file_kib": _kib(package)}


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _mapped(process: str, package: str) -> dict[str, int]:
    """KiB of the package's weights that the process has mapped."""
    row = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
    try:
        text = Path(f"/proc/{process}/smaps").read_text()
    except OSError:  # the process has ended
        return row
    inside = False
    for line in text.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = package in line and "constants.safetensors" in line
        elif inside and (key := line.partition(":")[0]) in row:
            row[key] += int(line.split()[1])
    return row


def _kib(package: str) -> int:
    found = Path(package).rglob("constants.safetensors")
    return sum(path.stat().st_size for path in found) // 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("engines", "reload", "memory"))
    parser.add_argument("--seconds", type=float, default=10, help="of each run")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    given = parser.parse_args()
    if given.seconds <= 0 or min(given.clients) < 1:
        parser.error("seconds and clients must be positive")
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "engines":
            measure_engines(folder, given.seconds, given.clients)
        elif given.what == "reload":
            print(json.dumps(reload_under_load(folder, given.seconds)))
        else:
            print(json.dumps(shared_weights(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
