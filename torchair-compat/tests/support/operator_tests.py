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
- *slow*: it did not end in the CPU time that the runner gives a test.
- *training*: the operator computes gradients or updates, which this package refuses.
- *hardware*: the test reads what only an NPU has, or needs more ranks than the host has processors.
- *their own*: the test cannot pass: its names, files or packages are missing, its operands or those of its
  reference don't fit, it fills tensors of dtypes that PyTorch has no random numbers of, a process of it ends
  before another has read its tensors, or it is listed below, with the reason.
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
    r"backward|_grad\b|_grad_|apply_adam|dropout|dropmask|does not require grad|it computes"
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
    r"|got an unexpected keyword argument '(time|pertokenScale)'|tuple expected at most 1 argument"
    r"|'numpy.ndarray' object has no attribute|Cannot interpret '.*' as a data type"
    r"|Can't call numpy\(\) on Tensor that requires grad|matmul: Input operand 1 has"
    r"|normal_kernel_cpu|random_update_from_to|to - 1 is out of bounds for"
)
# Why a test cannot pass, by its file, its name and its error. The page lists these.
_FAULTS = {
    r"has no attribute '(npu_fused_infer_attention_v2|float4_e1m2)'": "calls a name that"
    " op-plugin does not have",
    r"score\.py .*_d_unequal .*heads of query have 192 elements, those of key 128": "has"
    " a query and keys of other widths",
    r"re_routing\.py .*expert_token_num_per_rank counts \d+ rows": "counts more rows than"
    " there are",
    r"scatter_pa_cache\.py .*index 16 is out of bounds for dimension 0 with size 16": "has"
    " a reference that reads beyond its rows",
    r"quant_matmul_all_to_all\.py .*size of tensor a \(32\) must match": "has a reference"
    " of another shape",
    r"mla_with_lse\.py .*must be from 0 to 256, got \[1024": "has lengths of 1024 for"
    " tables of 256 rows",
    r"(norm_dynamic_mx_quant\.py .*with_rstd )AssertionError": "wants the last bit of"
    " 1 / sqrt(1e-6) in f32: 1000, where PyTorch's rsqrt rounds twice",
    r"asymmetric\.py .*fp16_input .*not close": "wants the last bit of 127 - max / scale in"
    " f32",
    r"950_dst_type|rms_norm_quant\.py .*float8_e5m2 .*False is not true": "reads bytes of"
    " hifloat8 as numbers; as hifloat8 they are equal",
    r"a8w4_per_group_weight_nz .*does not split 8 rows": "has groups of 4 and 8 rows for 8"
    " rows",
    r"group_list_none .*RuntimeError not raised": "wants an error for a group_type of None,"
    " which the page has as the default",
    r"no_quant_case_1 .*shapes differ|quant_950 .*shapes differ: \(32,\)": "compares with a reference"
    " of other dimensions",
    r"finalize_routing_mxfp8.*group_list must have shape": "has two groups, and one"
    " weight or four",
    r"nz_mxfp4_multi_weight_shape .*scale must have shape": "has twice as many elements of"
    " weights as of scales",
    r"init_routing_mxfp_no_quant .*expected np.ndarray": "converts a tensor as an array",
    r"attention_with_hifp8 .*d_scale_v must have shape": "compares with ones of a shape that"
    " no result has",
    r"swiglu_group_quant\.py .*result error": "wants the gate after its weight; the"
    " kernel's page returns it before",
    r"swiglu_mx_quant\.py .*tuple index out of range": "reads a third result of two",
    r"with_hifloat8 .*result error": "compares with a weight that was not rounded to"
    " hifloat8",
    r"_with_outdtype .*(out_dtype|normal_kernel)": "compares with random numbers",
    r"nsa_select_attention\.py .*result error": "has a reference that rounds probabilities"
    " to f16 before their product",
    r"kv_quant_sparse.*hif8 .*precision compare": "has a reference that rounds keys to"
    " bf16; 99.9 % of our elements are those of float64",
    r"group_norm_silu\.py .*950_ .*result error": "has a reference that rounds the norm to"
    " f16 before the gate",
    r"update_expert\.py .*dtype' do not match": "runs with an older test case, which has"
    " dtypes differ",
}
_ANY_FAULT = re.compile("|".join(f"(?:{pattern})" for pattern in _FAULTS))
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


def _said(result: Outcome) -> str:
    return f"{result.file} {result.test} {_cause(result)}"


def _fault(result: Outcome) -> str:
    """Why a test cannot pass that _ANY_FAULT finds."""
    said = _said(result)
    return next(why for pattern, why in _FAULTS.items() if re.search(pattern, said))


def _item(cause: str, tests: list[str]) -> list[str]:
    """The lines of a list for tests that have a cause. Names of folders are removed."""
    short = re.sub(r"(?<![\w.])/[\w./-]+", "FOLDER", cause) or "an error without text"
    text = f"- {short}: {', '.join(tests)}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False)


def kind_of(result: Outcome) -> str:
    """The word of KINDS for a test."""
    said = _said(result)
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
        ("their own", _ANY_FAULT),
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
    causes, faults = (collections.defaultdict(list) for _ in range(2))
    for result in results:
        kind = kind_of(result)
        files.setdefault(result.file, collections.Counter())[kind] += 1
        test = f"`{result.test.rpartition('.')[2]}`"
        if kind == "wrong":
            causes[_cause(result)].append(test)
        if kind == "their own" and _ANY_FAULT.search(_said(result)):
            faults[_fault(result)].append(test)
    total = sum(files.values(), collections.Counter())
    counts = ", ".join(f"{total[kind]} {kind}" for kind in KINDS)
    ran = f"{len(files)} of the {there} files were run."
    lines = [HEAD, ran, f"Of {len(results)} tests: {counts}.", ""]
    lines += [f"| file | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for file, found in files.items():
        numbers = " | ".join(str(found[kind]) for kind in KINDS)
        lines.append(f"| `{Path(file).name}` | {numbers} |")
    for title, listed in (
        ("The tests that are wrong", causes),
        ("Tests that cannot pass", faults),
    ):
        if listed:
            lines += ["", f"## {title}", ""]
        for cause in sorted(listed):
            lines += _item(cause, listed[cause])
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
