"""Random options, modes, scopes, custom passes, graph breaks and sizes on three small
models: the result is the eager one, or an error says clearly why not.

    random_options.py --seed 1000 --count 60

A case follows from its seed alone. Its line says how to run it again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch

import torch_npu
import torchair
from random_passes import custom_pass

MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")
# Errors that count as an answer: options that exclude each other, or that a mode does
# not have. Each error names an option or a mark, and says what to do.
CLEAR = (
    "enable_single_stream and",
    "npu_wait_tensor is not support in this mode",
    "only support 'py' type",
    "for the capture modes",
    "breaks inside of torchair.scope",
)
# Where a model breaks its graph.
BREAKS = (None, None, None, "before", "in", "after")
PASSES = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")

Options = dict[str, Any]


def _flags(prefix: str, names: str) -> dict[str, tuple[Any, ...]]:
    return {f"{prefix}.{name}": (True, False) for name in names.split()}


# The values that a case may give each option.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "debug.graph_dump.type": ("txt", "pbtxt", "py"),
    "ge_config.oo_level": ("O1", "O3"),
    "ge_config.export_compile_stat": ("0", "2"),
    "ge_config.optimization_switch": ("Pass1:on",),
    "ge_config.aicore_num": ("24|48",),
    "experimental_config.topology_sorting_strategy": ("BFS", "DFS", "StableRDFS"),
    "experimental_config.static_model_ops_lower_limit": (-1, 2, 50),
    "debug.aclgraph.static_capture_size_limit": (1, 3, 64),
    **_flags("debug", "run_eagerly deadlock_check"),
    **_flags(
        "debug.aclgraph",
        "clone_input remove_cat_ops enable_output_clone"
        " disable_reinplace_inplaceable_ops_pass"
        " disable_reinplace_input_mutated_ops_pass disable_mempool_reuse_in_same_fx",
    ),
    **_flags(
        "experimental_config",
        "npu_fx_pass frozen_parameter remove_noop_ops enable_view_optimize"
        " pattern_fusion_pass enable_ref_data keep_inference_input_mutations"
        " cc_parallel_enable memory_efficiency tiling_schedule_optimize"
        " aot_config_enable_joint_graph aclgraph._super_kernel_optimize",
    ),
    **_flags(
        "ge_config",
        "enable_single_stream oo_constant_folding oo_dead_code_elimination",
    ),
}


def scopes(rng: random.Random) -> list[Callable[[], Any]]:
    """Up to two scopes, the outer one first."""
    scope = torchair.scope
    known: list[Callable[[], Any]] = [
        lambda: scope.npu_stream_switch("1"),
        lambda: scope.npu_stream_switch("2", 1),
        lambda: scope.super_kernel("s", ""),
        lambda: scope.super_kernel("s", "stream-fusion=1"),
        lambda: scope.limit_core_num(1, 1),
        lambda: scope.op_never_timeout(True),
        lambda: scope.data_dump(),
    ]
    return rng.sample(known, rng.choice((0, 0, 1, 1, 2)))


class _Marked(torch.nn.Module):
    """A model whose second part is in scopes. Dynamo does not trace a list of functions
    that make scopes, so each number of scopes has a branch."""

    def __init__(self, chosen: list[Callable[[], Any]]) -> None:
        super().__init__()
        self.chosen = chosen
        self.breaks: str | None = None

    def marked(self, part: Callable[..., Any], *values: Any) -> Any:
        if self.breaks == "before":
            torch._dynamo.graph_break()
        if not self.chosen:
            found = self.broken(part, *values)
        elif len(self.chosen) == 1:
            with self.chosen[0]():
                found = self.broken(part, *values)
        else:
            with self.chosen[0](), self.chosen[1]():
                found = self.broken(part, *values)
        if self.breaks == "after":
            torch._dynamo.graph_break()
        return found

    def broken(self, part: Callable[..., Any], *values: Any) -> Any:
        found = part(*values)
        if self.breaks == "in":
            torch._dynamo.graph_break()
        return found


class Layers(_Marked):
    """Products, a norm, a residual."""

    def __init__(self, chosen: list[Callable[[], Any]]) -> None:
        super().__init__(chosen)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.relu(self.up(x))
        y = self.marked(lambda y: self.down(y) * 2, y)
        return self.norm(x + y), torch.cat([y.sin(), x.exp()]).clone()


class Norms(_Marked):
    """Operators of torch_npu that fusions look for."""

    def __init__(self, chosen: list[Callable[[], Any]]) -> None:
        super().__init__(chosen)
        self.gamma = torch.nn.Parameter(torch.rand(16))

    def forward(self, x: torch.Tensor) -> Any:
        y, _, total = torch_npu.npu_add_rms_norm(x, x * 0.5, self.gamma)
        found = self.marked(lambda y: torch_npu.npu_dynamic_quant(y), y)
        return *found, total, x[1:]


class Cache(_Marked):
    """Writes to a buffer and to its input."""

    def __init__(self, chosen: list[Callable[[], Any]]) -> None:
        super().__init__(chosen)
        self.register_buffer("state", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> Any:
        self.state.add_(1)
        y = self.marked(lambda x, s: (x + s).cumsum(0), x, self.state)
        x.mul_(0.5)
        return y, x.sum(-1), self.state * 2


MODELS = (Layers, Norms, Cache)


def run_case(seed: int) -> str:
    """Runs a case. Returns "equal", or the text of the error that answers it.
    AssertionError: any other outcome."""
    rng = random.Random(seed)
    model_class = rng.choice(MODELS)
    chosen = scopes(rng)
    mode, dynamic = rng.choice(MODES), rng.choice((False, True, None))
    names = rng.sample(sorted(OPTIONS), rng.randint(0, 6))
    options = {name: rng.choice(OPTIONS[name]) for name in names}
    if model_class is Cache:  # this model breaks what the option's user promises
        options.pop("experimental_config.frozen_parameter", None)
    # Drawn last, so that a seed's options are those of before.
    breaks = rng.choice(BREAKS)
    passes = {name: custom_pass(rng) for name in PASSES if rng.random() < 0.4}
    what = f"seed {seed}: {model_class.__name__}, {mode}, dynamic={dynamic}, {options}"
    what += f", break {breaks}, {[*passes]}"
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _compare(model_class, chosen, mode, dynamic, options | passes, breaks, seed)
        except AssertionError as error:
            raise AssertionError(f"{what}\n{error}") from error
        except Exception as error:
            text = str(error)
            if any(known in text for known in CLEAR):
                return text
            raise AssertionError(f"{what}\n{type(error).__name__}: {text}") from error
    return "equal"


def _compare(
    model_class: type[_Marked],
    chosen: list[Callable[[], Any]],
    mode: str,
    dynamic: bool | None,
    options: Options,
    breaks: str | None,
    seed: int,
) -> None:
    config = torchair.CompilerConfig()
    config.mode = mode
    for path, value in options.items():
        *groups, name = path.split(".")
        group: Any = config
        for part in groups:
            group = getattr(group, part)
        setattr(group, name, value)
    torch.manual_seed(seed)
    eager = model_class(chosen).eval()
    twin = model_class(chosen).eval()
    twin.load_state_dict(eager.state_dict())
    eager.breaks = twin.breaks = breaks
    backend = torchair.get_npu_backend(compiler_config=config)
    whole = breaks is None
    run = torch.compile(twin, backend=backend, dynamic=dynamic, fullgraph=whole)
    with torch.no_grad():
        for rows in (3, 3, 5):
            x = torch.randn(rows, 16)
            given, copy = x.clone(), x.clone()
            found, wanted = run(given), eager(copy)
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(given, copy)
            torch.testing.assert_close(twin.state_dict(), eager.state_dict())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    failed = 0
    answers: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            try:
                answer = run_case(seed)
            except AssertionError as error:
                failed += 1
                print(f"FAILED {error}", file=sys.stderr, flush=True)
                continue
            kind = "equal" if answer == "equal" else "a clear error"
            answers[kind] = answers.get(kind, 0) + 1
    print(f"{arguments.count} cases: {answers}, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
