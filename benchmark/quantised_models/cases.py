"""Cases of models that PyTorch's quantisation made. The peers get the same graph."""

from __future__ import annotations

from collections.abc import Callable

from harness import EXPORTED, Row, Workload, case, steady

NAMES = (
    "eager",
    "inductor",
    "openvino",
    "onnxruntime",
    "anabranch",
    "anabranch frozen",
    EXPORTED,
)


def add(name: str, what: str, make: Callable[[], Workload]) -> None:
    def run() -> list[Row]:
        # A sum that rounds to another byte moves what follows.
        return steady(make, NAMES, "ms", 2.0, tolerance=0.1)

    run.__doc__ = what
    case(f"quantised-{name}", extra=True)(run)
