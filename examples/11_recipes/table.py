"""Runs every recipe in every way, and writes the page that says how each ends.

    python examples/11_recipes/table.py FOLDER --page torchair-compat/RECIPES.md
    python examples/11_recipes/table.py FOLDER --results runs.jsonl --only glm

FOLDER is a checkout of cann-recipes-infer. `--results` keeps what has run, for the next
call. Nothing of the recipes is kept."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from files import write_model, write_run, write_unused
from tiny import KINDS, MODELS, NOT_RUN, TWO_RANKS, WITH_DRAFTS, WITHOUT_INT8

from ranks import Ended, prepare, run
from run import MODES, checkout

WIDTH = 110
HEAD = """# The recipes for NPUs

Which models of cann-recipes-infer run unchanged on a host?
`examples/11_recipes/table.py` writes this page, given a checkout of that repository. Each model is tiny, with
random weights and caches that are full of NaN, and makes {tokens} tokens for two prompts.

- *bf16*, *int8*: what weights and activations are; *drafts*: with the model's own head for drafted tokens.
  hy3, qwen3.5 and qwen3_moe have no int8: their pages have MX formats or fp8. kimi_k2_thinking has no drafts:
  its settings ask for none, and its own head for them ends with an error of the recipe.
- *passes*: eager, it ends; compiled, its texts are those of eager code too. The factor behind it: the CPU
  time of a step of decode in eager code over that of this mode, both measured in one run of the script. A way
  without one was not measured.
- *other texts*: it ends, and its texts are others; *ends*: eager code has not run.
- *no mode*: the recipe refuses the mode itself. A number is an error below. A dash has not run.
"""
_FACTOR = re.compile(r", [\d.]+x$")
_NO_MODE = re.compile(r"exe_mode=\S+ is not supported")
Way = tuple[str, str, int, str]  # model, kind, ranks, mode


def ways(only: str) -> Iterator[Way]:
    """The lines of the table, and its columns."""
    for model in MODELS:
        if not re.search(only, model):
            continue
        for kind in KINDS:
            if kind == "drafts" and model not in WITH_DRAFTS:
                continue
            if kind == "int8" and model in WITHOUT_INT8:
                continue
            for ranks in (2,) if model in TWO_RANKS else (1, 2):
                yield from ((model, kind, ranks, mode) for mode in MODES)


def run_one(recipes: Path, way: Way, port: int, tokens: int, limit: float) -> Ended:
    model, kind, ranks, mode = way
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder, model, 2, kind)
        settings = write_run(folder, model, mode, ranks, tokens, kind)
        return run(recipes, settings, ranks, port, limit)


def page(ends: dict[Way, Ended], tokens: int) -> str:
    """The table, the errors, and the models that are not in it."""
    errors: dict[str, int] = {}
    lines = [f"| model | kind | ranks | {' | '.join(MODES)} |", "|---" * 6 + "|"]
    counts: dict[str, int] = {}
    for model, kind, ranks in dict.fromkeys(way[:3] for way in ways("")):
        cells = []
        for mode in MODES:
            cells.append(_cell(ends, (model, kind, ranks, mode), errors))
            word = _FACTOR.sub("", cells[-1]) if not cells[-1].isdecimal() else "errors"
            counts[word] = counts.get(word, 0) + 1
        lines.append(f"| `{model}` | {kind} | {ranks} | {' | '.join(cells)} |")
    summary = ", ".join(
        f"{count} {word}" for word, count in counts.items() if word != "-"
    )
    parts = [HEAD.format(tokens=tokens), f"Of the ways that have run: {summary}.", ""]
    parts += lines
    if errors:
        parts += ["", "## Errors", ""]
        for error, number in errors.items():
            parts += _wrapped(f"{number}. {error}")
    parts += ["", "## Not in the table", ""]
    for models, reason in NOT_RUN.items():
        parts += _wrapped(f"- {models}: {reason}")
    return "\n".join(parts) + "\n"


def _cell(ends: dict[Way, Ended], way: Way, errors: dict[str, int]) -> str:
    if (end := ends.get(way)) is None:
        return "-"
    if _NO_MODE.search(end.error):
        return "no mode"
    if end.error:
        return str(errors.setdefault(_short(end.error), len(errors) + 1))
    if (eager := ends.get((*way[:3], "eager"))) is None:
        return "ends"
    if not end.texts or end.texts != eager.texts:
        return "other texts"
    if way[3] == "eager" or "?" in (end.cpu, eager.cpu):
        return "passes"
    return f"passes, {float(eager.cpu) / max(float(end.cpu), 0.01):.1f}x"


def _short(error: str) -> str:
    """An error without names of folders, and not longer than a sentence."""
    return re.sub(r"(?<![\w.])/[\w./-]+", "FOLDER", error)[:200]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False)


def read(path: Path | None) -> dict[Way, Ended]:
    """The runs so far: the last line of each way counts."""
    lines = path.read_text().splitlines() if path and path.is_file() else []
    rows = [json.loads(line) for line in lines]
    return {tuple(row["way"]): Ended(**row["end"]) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="a checkout of cann-recipes-infer")
    parser.add_argument("--page", type=Path, help="where the table is written")
    parser.add_argument(
        "--results", type=Path, help="lines of JSON, read and continued"
    )
    parser.add_argument("--only", default="", help="a pattern of the names of models")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--port", type=int, default=6038)
    parser.add_argument("--limit", type=float, default=900, help="seconds of a run")
    given = parser.parse_args()
    recipes, ends = checkout(given.folder, parser), read(given.results)
    with tempfile.TemporaryDirectory() as name:
        write_unused(Path(name))
        prepare(recipes, Path(name))
        for way in ways(given.only):
            chosen = way[3] in given.modes and way[1] in given.kinds
            if not chosen or way in ends:
                continue
            end = run_one(recipes, way, given.port, given.tokens, given.limit)
            ends[way] = end
            took = f"{end.step} ms a step, {end.cpu} ms of CPU time"
            print(*way, end.error or took, flush=True)
            if given.results:
                row = {"way": way, "end": dataclasses.asdict(end)}
                with given.results.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
    if given.page:
        given.page.write_text(page(ends, given.tokens))
    return 0


if __name__ == "__main__":
    sys.exit(main())
