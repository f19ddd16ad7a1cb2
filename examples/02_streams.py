"""Branches of a model on streams of their own, marked by the user or found by the
compiler.

The branches are the two directions of a recurrent network. Each step needs the step
before it, and one step is too small for two cores; but the directions are independent.
The example compares the results with eager and prints the time of each way to schedule
the branches."""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

import anabranch


class Bidirectional(nn.Module):
    """The last states of a recurrent network that reads from both ends."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.forwards = nn.Linear(2 * width, width)
        self.backwards = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = x.unbind()
        with anabranch.stream("forwards"):
            first = read(self.forwards, steps)
        with anabranch.stream("backwards"):
            second = read(self.backwards, steps[::-1])
        return torch.cat([first, second], -1)


def read(cell: nn.Module, steps: tuple[torch.Tensor, ...]) -> torch.Tensor:
    state = torch.zeros_like(steps[0])
    for step in steps:
        state = torch.tanh(cell(torch.cat([step, state], -1)))
    return state


def milliseconds(models: list[nn.Module], x: torch.Tensor) -> list[float]:
    """The median time of a call of each model, in turns."""
    times: list[list[float]] = [[] for _ in models]
    for _ in range(300):
        for model, spent in zip(models, times):
            start = time.perf_counter()
            model(x)
            spent.append(time.perf_counter() - start)
    return [1e3 * statistics.median(spent) for spent in times]


def main() -> None:
    torch.manual_seed(0)
    model, x = Bidirectional().eval(), torch.randn(24, 1, 256)
    ways = {"eager": model}
    with torch.no_grad():
        expected = model(x)
        for streams in ("off", "marked", "auto"):
            torch._dynamo.reset()
            config = anabranch.Config(streams=streams, freeze=True, cache=False)
            compiled = anabranch.compile(model, config=config, dynamic=False)
            gap = (compiled(x) - expected).abs().max().item()
            print(f"streams={streams}: largest difference {gap:.1e}")
            ways[f"streams={streams}"] = compiled
        with anabranch.profile() as trace:
            ways["streams=marked"](x)
        for way, spent in zip(ways, milliseconds(list(ways.values()), x)):
            print(f"{way:<15} {spent:.3f} ms")
    trace.report("streams.html")
    print("what ran when: streams.html")


if __name__ == "__main__":
    main()
