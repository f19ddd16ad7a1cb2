"""Measures what a call costs that computes next to nothing."""

from __future__ import annotations

import torch

from harness import Row, Workload, case, steady

NAMES = ("eager", "no-op backend", "inductor", "anabranch")


def chain(operators: int, outputs: int = 1, tensors: int = 1) -> Workload:
    """`operators` pointwise operators on 64 floats, in a code object of its own."""
    arguments = [f"x{i}" for i in range(tensors)]
    lines = [f"def chain({', '.join(arguments)}):", "    y = x0", "    kept = []"]
    for i in range(operators):
        other = arguments[i % tensors]
        step = ("y + 1.5", "y * 0.5", f"y - {other}", "torch.relu(y)")[i % 4]
        lines.append(f"    y = {step}")
        if outputs > 1 and i % (operators // (outputs - 1)) == 0:
            lines.append("    kept.append(y)")
    lines.append("    return (y, *kept)")
    scope: dict = {"torch": torch}
    exec("\n".join(lines), scope)  # noqa: S102 text of this file
    return Workload(scope["chain"], tuple(torch.ones(64) for _ in arguments))


@case("call-1")
def call_1() -> list[Row]:
    """a call of 1 tiny operator"""
    return steady(lambda: chain(1), NAMES, "us", 4)


@case("call-10")
def call_10() -> list[Row]:
    """a call of 10 tiny operators"""
    return steady(lambda: chain(10), NAMES, "us", 4)


@case("call-8-tensors")
def call_8_tensors() -> list[Row]:
    """a call of 8 tiny operators on 8 tensors"""
    return steady(lambda: chain(8, tensors=8), NAMES, "us", 4)


@case("call-200")
def call_200() -> list[Row]:
    """a call of 200 tiny operators with 11 results"""
    return steady(lambda: chain(200, outputs=11), NAMES, "us", 4)
