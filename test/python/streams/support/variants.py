"""Compiles one graph with several options. Dynamo and AOTAutograd, which take most of
the time of a small graph, run once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from anabranch import backend
from anabranch.capture.aot import aot
from anabranch.config import resolve
from anabranch.report import last_report


class Variants:
    """A Dynamo backend. A call runs the program with the options that `chosen` names.
    `prepare` gets each name and the graph first."""

    def __init__(
        self,
        options: Mapping[str, Mapping[str, Any]],
        prepare: Callable[[str, torch.fx.GraphModule], None] | None = None,
    ) -> None:
        self.configs = {name: resolve(given) for name, given in options.items()}
        self.prepare = prepare
        self.chosen = next(iter(options))
        self.reports: dict[str, Any] = {}

    def compile(self, function: Callable[..., Any], dynamic: bool = False) -> Any:
        return torch.compile(
            function, backend=self, fullgraph=True, dynamic=dynamic or None
        )

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return aot(module, inputs, self._compile, freeze=False)

    def _compile(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], sources: Any
    ) -> Callable[..., Any]:
        programs = {}
        for name, config in self.configs.items():
            if self.prepare is not None:
                self.prepare(name, module)
            programs[name] = backend.compile_graph(
                module, inputs, sources, config=config
            )
            self.reports[name] = last_report()

        def call(arguments: list[Any]) -> Any:
            return programs[self.chosen](arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call
