"""Checks that graphs with regions and with sizes that the run decides are one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import anabranch

SETTINGS = {
    "capture_dynamic_output_shape_ops": True,
    "capture_scalar_outputs": True,
}


def check_whole(
    function: Callable[..., Any], *calls: tuple[Any, ...], dynamic: bool = False
) -> Callable[..., Any]:
    """Compares calls of one program with PyTorch. Their arguments may be updated."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(SETTINGS), torch.no_grad():
        # PyTorch runs some of these only in a graph.
        plain = torch.compile(function, backend="eager", fullgraph=True)
        compiled = torch.compile(
            function, backend=anabranch.anabranch, fullgraph=True, dynamic=dynamic
        )
        for number, arguments in enumerate(calls):
            given = [[value.clone() for value in arguments] for _ in range(2)]
            expected = plain(*given[0])
            torch.testing.assert_close(compiled(*given[1]), expected)
            torch.testing.assert_close(given[1], given[0])
            if number == 0:
                assert_whole()
    return compiled


def together(functions: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """One function that returns what each of these returns."""

    def run(*arguments: Any) -> tuple[Any, ...]:
        return tuple(function(*arguments) for function in functions.values())

    return run


def assert_whole() -> None:
    """The graph that was compiled last is one program."""
    report = anabranch.last_report()
    assert report is not None and report.get("parts") == 1, report
    assert "reason" not in report and "eager" not in report, report
