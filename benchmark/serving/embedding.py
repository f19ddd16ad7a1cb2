"""An embedding server: batches of sentences whose number and length change.

`python -m serving.embedding`, in benchmark/, serves 60 batches of 1 to 16 sentences of
5 to 120 tokens, in three rounds without a pause, with each contender in a process of
its own. It prints the first request, each round with its longest request, and the CPU
time, which other programs on the machine disturb less. The first round has the first
batch of one sentence, for which Dynamo traces anew."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import anabranch
from harness import Row, case
from models import minilm
from shapes import CONTENDERS

NAMES = ("eager", "dynamic", "tiered", "eager first")
FOLDER = Path(__file__).parent.parent
BATCHES, ROUNDS, MOST_SENTENCES, SHORTEST, LONGEST = 60, 3, 16, 5, 120

Batch = tuple[torch.Tensor, torch.Tensor]


def batch(sentences: int, pick: random.Random) -> Batch:
    """Tokens, filled up to the longest sentence, and the mask that says so."""
    lengths = [pick.randint(SHORTEST, LONGEST) for _ in range(sentences)]
    longest = max(lengths)
    generator = torch.Generator().manual_seed(longest)
    tokens = torch.randint(1000, 20000, (sentences, longest), generator=generator)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return tokens, mask.long()


def timed(call: Callable, arguments: Batch) -> dict[str, float]:
    start, used = time.perf_counter(), time.process_time()
    call(*arguments)
    return {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - used,
    }


@torch.no_grad()
def serve(name: str) -> dict[str, Any]:
    """Seconds of one contender."""
    pick = random.Random(1)
    batches = [batch(pick.randint(1, MOST_SENTENCES), pick) for _ in range(BATCHES)]
    model = minilm().function
    call = model if name == "eager" else CONTENDERS[name](model)
    found: dict[str, Any] = {"first": timed(call, batches[0]), "rounds": []}
    for _ in range(ROUNDS):
        calls = [timed(call, arguments) for arguments in batches]
        sums = {kind: sum(one[kind] for one in calls) for kind in calls[0]}
        found["rounds"].append(sums | {"longest": max(one["wall"] for one in calls)})
    found["programs"] = anabranch.counters.specialised
    return found


def _in_process(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "serving.embedding", "--one", name]
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"error": done.stderr[-300:]}
    return json.loads(done.stdout.splitlines()[-1])


def _row(name: str) -> Row:
    found = _in_process(name)
    row = Row(name, unit="s", error=found.get("error", ""))
    if not row.error:
        times = sorted(one["wall"] for one in found["rounds"])
        row.value, row.low, row.high = statistics.median(times), times[0], times[-1]
        row.note = json.dumps(found)
    return row


@case("embedding-server", extra=True)
def embedding_server() -> list[Row]:
    """MiniLM-L6, 60 batches of up to 16 sentences of 5 to 120 tokens, one round"""
    return [_row(name) for name in NAMES]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(serve(sys.argv[2])))
    else:
        for row in map(_row, NAMES):
            print(row.contender, row.error or row.note, flush=True)
