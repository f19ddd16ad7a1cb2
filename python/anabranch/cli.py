"""The `anabranch` command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from . import _C, __version__
from .commands import (
    bench_command,
    cache_command,
    chat_command,
    compile_command,
    tune_command,
)
from .commands.cache_command import add_trust, trusting
from .packages import kernel_library
from .trace.page import write_report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="anabranch", description="A graph compiler and runtime for PyTorch."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    ops = commands.add_parser("ops", help="the operators that have kernels")
    ops.add_argument("--json", action="store_true", help="the table as JSON")
    inspect = commands.add_parser("inspect", help="what a package holds")
    inspect.add_argument("package", help="the package's folder")
    add_trust(inspect)
    report = commands.add_parser(
        "report",
        help="a page of a trace: tracks, critical path, kernels",
        description="Makes one page of HTML, which needs nothing else, of a trace "
        "that ANABRANCH_TRACE=<file> or anabranch.profile() wrote.",
    )
    report.add_argument("trace", help="the trace's JSON")
    report.add_argument("-o", "--output", help="the page; else the trace's name, .html")
    commands.add_parser(
        "machine",
        help="CPUs, limits of the container, and the threads chosen by them",
    )
    bench_command.add_parser(commands)
    cache_command.add_parser(commands)
    _add_kernels(commands)
    chat_command.add_parser(commands)
    compile_command.add_parser(commands)
    tune_command.add_parser(commands)
    given = parser.parse_args(arguments)
    with trusting(getattr(given, "trust", None)):
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    try:
        if given.command == "ops":
            _print_operators(given.json)
        elif given.command == "kernels":
            _kernels(given)
        elif given.command == "machine":
            print(_C.machine_facts(), end="")
        elif given.command == "report":
            print(write_report(given.trace, given.output))
        elif given.command == "bench":
            return bench_command.run(given)
        elif given.command == "cache":
            return cache_command.run(given)
        elif given.command == "tune":
            return tune_command.run(given)
        elif given.command == "compile":
            return compile_command.run(given)
        elif given.command == "chat":
            return chat_command.run(given)
        else:
            print(_C.inspect(given.package))
    except BrokenPipeError:
        return 0
    except (OSError, RuntimeError, ValueError) as error:
        print(f"anabranch: {error}", file=sys.stderr)
        return 1
    return 0


def _add_kernels(commands: Any) -> None:
    library = commands.add_parser("kernels", help="kernels made for exact shapes")
    add_trust(library)
    what = library.add_subparsers(dest="action", required=True)
    what.add_parser("ls", help="a line for each entry of the library")
    show = what.add_parser("show", help="the operators and shapes of one")
    show.add_argument("key", help="the beginning of its key")
    prune = what.add_parser("prune", help="removes entries")
    prune.add_argument(
        "--days", type=float, help="only those that were not used for so long"
    )


def _kernels(given: argparse.Namespace) -> None:
    if given.action == "ls":
        print(kernel_library.table())
    elif given.action == "show":
        print(kernel_library.show(given.key))
    else:
        print(f"removed {kernel_library.prune(given.days)} entries")


def _print_operators(as_json: bool) -> None:
    text = _C.operator_table()
    if as_json:
        print(text)
        return
    rows = json.loads(text)
    width = max((len(row["op"]) for row in rows), default=0)
    families: dict[str, list[dict]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    for family, members in families.items():
        print(f"{family} ({len(members)})")
        for row in members:
            print(f"  {row['op']:<{width}}  {' '.join(row['dtypes'])}")
    print(f"{len(rows)} operators; all others run through PyTorch's dispatcher")


if __name__ == "__main__":
    sys.exit(main())
