"""Runs a model of the recipes for Ascend NPUs on this host, tiny, eager and compiled.

    python examples/11_recipes/run.py FOLDER
    python examples/11_recipes/run.py FOLDER --model qwen3_moe --ranks 2
    python examples/11_recipes/run.py FOLDER --model deepseek_r1 --ranks 2 --kind drafts

FOLDER is a checkout of cann-recipes-infer. Nothing is fetched and nothing is written
there: configurations, a tokenizer of bytes and random weights are made in a temporary
folder. The same seed gives both ways the same weights, so the texts must be equal."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from files import write_model, write_run, write_unused
from tiny import KINDS, MODELS, TWO_RANKS

from ranks import ENTRY, Ended, prepare, run

MODES = ("eager", "npugraph_ex", "ge_graph")


def checkout(given: Path, parser: argparse.ArgumentParser) -> Path:
    """The folder of the recipes. The parser's error: it is none."""
    if not (given / ENTRY).is_file():
        parser.error(f"{given} has no {ENTRY}: give a checkout of cann-recipes-infer")
    return given.resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="a checkout of cann-recipes-infer")
    parser.add_argument("--model", choices=MODELS, default="qwen3_8b")
    parser.add_argument("--kind", choices=KINDS, default="bf16")
    parser.add_argument("--mode", choices=MODES[1:], default="npugraph_ex")
    parser.add_argument("--ranks", type=int, choices=(1, 2), default=1)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--port", type=int, default=6038)
    parser.add_argument("--limit", type=float, default=3600, help="seconds of a run")
    given = parser.parse_args()
    if given.model in TWO_RANKS and given.ranks == 1:
        parser.error(f"{given.model} has groups of ranks that need --ranks 2")
    recipes = checkout(given.folder, parser)
    ends: list[Ended] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder, given.model, given.layers, given.kind)
        write_unused(folder)
        prepare(recipes, folder)
        for mode in ("eager", given.mode):
            path = write_run(
                folder, given.model, mode, given.ranks, given.tokens, given.kind
            )
            start = time.perf_counter()
            ends.append(run(recipes, path, given.ranks, given.port, given.limit))
            whole = time.perf_counter() - start
            if ends[-1].error:
                raise SystemExit(f"{mode}: {ends[-1].error}\n{ends[-1].log}")
            took = f"a step {ends[-1].step} ms, {ends[-1].cpu} ms of CPU time"
            print(f"{mode}: {whole:.1f} s in all, {took}")
            for number, text in ends[-1].texts.items():
                print(f"  {number}: {text!r}")
    same = bool(ends[0].texts) and ends[0].texts == ends[1].texts
    print("The texts are equal." if same else "The texts are not equal.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
