"""Runs op-plugin's own tests of operators unchanged, and says of each how it ends.

    operator_tests.py FOLDER --table OPERATOR_TESTS.md --results results.jsonl

FOLDER is a checkout of op-plugin's repository. No test is kept: the table has names,
outcomes and errors."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import sys
import textwrap
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from public_tests import (
    WIDTH,
    Outcome,
    Process,
    _of,
    _Results,
    environment_of,
    keep,
    run,
    run_each,
    told,
)

FOLDER = "test/test_custom_ops"
HEAD = """# op-plugin's own tests

Which tests of operators in op-plugin's public repository pass unchanged on a host?
`torchair-compat/tests/support/operator_tests.py` writes this page, given a checkout of that repository. Some
of the tests want the packages ml_dtypes, en_dtypes and einops.

- *passed*: unchanged.
- *wrong*: listed below, with the error.
- *texts*: the error that the test wants is raised, and says another sentence.
- *slow*: it did not end in the time that the runner gives a test.
- *training*: the operator computes gradients or updates, which this package refuses.
- *hardware*: the test reads what only an NPU has, or needs more ranks than the host has processors.
- *their own*: the test cannot pass: its names, files or packages are missing, its operands or those of its
  reference don't fit, it fills tensors of dtypes that PyTorch has no random numbers of, or a process of it
  ends before another has read its tensors.
- *skipped*: by the test itself.
"""
KINDS = (
    "passed",
    "wrong",
    "texts",
    "slow",
    "training",
    "hardware",
    "their own",
    "skipped",
)
# The kind of a test that does not pass, by its file, its name, and its error.
_TRAINING = re.compile(
    r"backward|_grad\b|_grad_|apply_adam|dropout|does not require grad|it computes"
    r" gradients or updates|it is a step of training",
    re.IGNORECASE,
)
_HARDWARE = re.compile(
    r"its kernels are an NPU's|is not on this host|ranks, and the host has|only its"
    r" processor reads|libascend|acl\.|check_operators_in_prof|No such file.*(Ascend|atb)"
)
_THEIR_OWN = re.compile(
    r"ml_dtypes is needed|NameError: name|No module named '(?!torch_npu|torchair)|IndentationError"
    r"|SyntaxError|missing \d+ required positional argument: '(self|cls)'"
    r"|has no attribute '_?(test_|supported|custom_op_exec|cpu_op)"
    # Faults of a test's own lines, before or after the operator.
    r"|Default process group has not been initialized|cannot access local variable"
    r"|got an unexpected keyword argument 'time'|tuple expected at most 1 argument"
    r"|'numpy.ndarray' object has no attribute|Cannot interpret '.*' as a data type"
    r"|Can't call numpy\(\) on Tensor that requires grad|matmul: Input operand 1 has"
    r"|normal_kernel_cpu|random_update_from_to|to - 1 is out of bounds for"
)
# Operands, or indices of a reference, that do not fit; and names that op-plugin does not
# have.
_UNFIT = re.compile(
    r"has no attribute '(npu_fused_infer_attention_v2|float4_e1m2)'"
    r"|score\.py .*_d_unequal .*heads of query have 192 elements, those of key 128"
    r"|re_routing\.py .*expert_token_num_per_rank counts \d+ rows"
    r"|scatter_pa_cache\.py .*index 16 is out of bounds for dimension 0 with size 16"
    r"|quant_matmul_all_to_all\.py .*size of tensor a \(32\) must match"
)
# A process has ended whose tensor another one reads.
_ENDED = "rebuild_storage_fd"
_TEXTS = re.compile(r'AssertionError: ".*" does not match "')
_SLOW = re.compile(r"it takes more than \d+ s")


def _cause(result: Outcome) -> str:
    """The error of a test. That of a file that cannot be imported is its import's."""
    if "Failed to import test module" not in result.reason:
        return result.reason
    errors = re.findall(r"^(?:\w+\.)*(\w+Error: .*)$", result.trace, re.MULTILINE)
    own = [error for error in errors if "Failed to import" not in error]
    return own[-1][:140] if own else result.reason


def kind_of(result: Outcome) -> str:
    """The word of KINDS for a test."""
    said = f"{result.file} {result.test} {_cause(result)}"
    if result.outcome == "passed":
        return "passed"
    if result.outcome == "skipped":
        return "hardware" if _HARDWARE.search(result.reason) else "skipped"
    if _ENDED in result.trace:
        return "their own"
    for kind, pattern in (
        ("training", _TRAINING),
        ("hardware", _HARDWARE),
        ("their own", _THEIR_OWN),
        ("their own", _UNFIT),
        ("texts", _TEXTS),
        ("slow", _SLOW),
    ):
        if pattern.search(said):
            return kind
    return "wrong"


def table(results: list[Outcome], there: int) -> str:
    """The page, with errors of tests that are wrong. `there`: how many files the folder
    has."""
    files: dict[str, collections.Counter[str]] = {}
    causes = collections.defaultdict(list)
    for result in results:
        kind = kind_of(result)
        files.setdefault(result.file, collections.Counter())[kind] += 1
        if kind == "wrong":
            causes[_cause(result)].append(f"`{result.test.rpartition('.')[2]}`")
    total = sum(files.values(), collections.Counter())
    counts = ", ".join(f"{total[kind]} {kind}" for kind in KINDS)
    ran = f"{len(files)} of the {there} files were run."
    lines = [HEAD, ran, f"Of {len(results)} tests: {counts}.", ""]
    lines += [f"| file | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for file, found in files.items():
        numbers = " | ".join(str(found[kind]) for kind in KINDS)
        lines.append(f"| `{Path(file).name}` | {numbers} |")
    if causes:
        lines += ["", "## The tests that are wrong", ""]
    for cause in sorted(causes):
        short = (
            re.sub(r"(?<![\w.])/[\w./-]+", "FOLDER", cause) or "an error without text"
        )
        text = f"- {short}: {', '.join(causes[cause])}"
        lines += textwrap.wrap(
            text, WIDTH, subsequent_indent="  ", break_long_words=False
        )
    return "\n".join(lines) + "\n"


def _work(name: str, file: str, lines: str, skip: list[str]) -> None:
    """Runs the tests of a module, in this process."""
    with open(lines, "a", encoding="utf-8") as written:
        results = _Results(file, written)
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(name)
        except BaseException:  # noqa: BLE001 - a file of tests may raise anything
            results._write(_of(file, f"{name}.*", sys.exc_info()))
            return
        run_each(suite, results, skip)


class _Forked:
    """A child of this process, which has imported what all tests import."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.setsid()
            work()
            code = 0
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int:
        return self._ended(0) or 0

    def _ended(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def start(
    path: Path, file: str, folder: str, lines: str, errors: Any, skip: str
) -> Process:
    """`start` of public_tests by a fork."""
    import torch_npu.testing.testcase

    import torch_npu  # noqa: F401 - the tests of some files import only parts of it

    def work() -> None:
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, there in ((0, nothing), (1, nothing), (2, errors.fileno())):
            os.dup2(there, number)
        os.environ.update(environment_of(path, folder))
        sys.path[:0] = [folder, str(path.parent)]
        _work(path.stem, file, lines, skip.split(","))

    return _Forked(work)


def main() -> int:
    arguments, kept = told(__doc__, "a pattern of the names of files")
    for path in sorted((arguments.folder / FOLDER).glob("test_*.py")):
        file = f"{FOLDER}/{path.name}"
        if not re.search(arguments.only, path.name):
            continue
        found = run(path, file, start, arguments.seconds)
        kept[file] = [
            dataclasses.replace(one, trace=one.trace[-4000:]) for one in found
        ]
        print(path.name, dict(collections.Counter(map(kind_of, found))), flush=True)
        if arguments.results:
            keep(arguments.results, kept)
    if arguments.table:
        results = [outcome for file in sorted(kept) for outcome in kept[file]]
        there = len([*(arguments.folder / FOLDER).glob("test_*.py")])
        arguments.table.write_text(table(results, there), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
