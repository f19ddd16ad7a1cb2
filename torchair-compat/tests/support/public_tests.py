"""Runs TorchAir's own Python tests unchanged, and says of each why it does not pass.

    public_tests.py FOLDER --table TESTS.md --results results.jsonl

FOLDER is a checkout of TorchAir's repository. No test is kept: the table has names,
outcomes and errors. Modules of TorchAir that are private, or that its allow-list of
public names leaves out, do not exist here. A stand-in takes their place, so that a file
of tests can be imported; a test that uses one ends as "private", with the name."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import json
import linecache
import multiprocessing
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import types
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

# The environment variable that names the folder.
VARIABLE = "TORCHAIR_DOCUMENTATION"
FOLDERS = ("tests/smoke", "tests/st", "npugraph_ex/tests/smoke")
SECONDS = 300  # of CPU time of one test: some start 4 processes 8 times
WIDTH = 110  # of the page
_PACKAGES = ("torchair", "npugraph_ex")
_HIDDEN = re.compile(r"PrivateUse: ([\w.]+)|has no option (_\w+)")
_READS_LOG = re.compile(
    r"\bin logs|in captured_output|\bstdout\.getvalue\(\)|\bcm\d*\.output|\bin \w*log"
)
_FOLDER = re.compile(r"(?<![\w.])/[\w./-]+")
HEAD = """# TorchAir's own tests

Which of the Python tests in TorchAir's public repository pass unchanged on a host?
`torchair-compat/tests/support/public_tests.py` writes this page, given a checkout of that repository.

- *passed*: unchanged.
- *private*: the test calls or replaces a function of TorchAir that is no public name, or a part of Dynamo.
- *log*: the test looks for a text in TorchAir's log that no page documents.
- *skipped*: by the test itself.
- *failed*: listed below, with the reason.
"""


KINDS = ("passed", "private", "log", "skipped", "failed")


class PrivateUse(Exception):
    """A test used a name of TorchAir that is not public."""


class Private:
    """Stands for an object that only TorchAir has. While a file is imported, and in
    `setUp` and `tearDown`, calls of it return another; in a test they raise."""

    strict = False

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_private_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        found = Private(f"{self._private_name}.{name}")
        object.__setattr__(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # what a test saved is put back unseen
        if Private.strict and not isinstance(value, Private):
            raise PrivateUse(f"{self._private_name}.{name}")
        object.__setattr__(self, name, value)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        if Private.strict:
            raise PrivateUse(self._private_name)
        return Private(self._private_name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._private_name

        def refuse(*arguments: Any, **settings: Any) -> Any:
            raise PrivateUse(name)

        return (type("PrivateBase", (), {"__new__": refuse}),)

    def __instancecheck__(self, value: Any) -> bool:
        raise PrivateUse(self._private_name)

    def _refuse(self, *arguments: Any) -> Any:
        raise PrivateUse(self._private_name)

    __bool__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __enter__ = __exit__ = __add__ = __index__ = __eq__ = _refuse  # type: ignore[assignment]
    __str__ = __format__ = _refuse  # type: ignore[assignment]
    __hash__ = object.__hash__


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of TorchAir that this distribution does not have."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] not in _PACKAGES and name not in _UTILITIES:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        return spec

    def create_module(self, spec: Any) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        _complete(module)


def _complete(module: types.ModuleType) -> None:
    """Private names of a module, and submodules that only TorchAir has, are found."""
    public = getattr(module, "__spec__", None)
    own = public is None or not isinstance(public.loader, _Finder)

    parts = module.__name__.split(".")
    inside = any(part.startswith("_") or part in _INTERNAL for part in parts)

    def find(name: str) -> Any:
        hidden = inside or (name.startswith("_") and not name.startswith("__"))
        if (hidden or not own or name in _SUBMODULES) and not name.startswith("__"):
            found = Private(f"{module.__name__}.{name}")
            setattr(module, name, found)
            return found
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    if "__getattr__" not in vars(module):
        module.__getattr__ = find  # type: ignore[method-assign]
    if own and not hasattr(module, "__path__"):
        module.__path__ = []


_UTILITIES = ("torch_npu.npu.utils", "torch_npu.utils")
# Errors of tests that replace parts of Dynamo or of PyTorch, or look into TorchAir.
_INSIDE = re.compile(
    r"torch\.\* op returned non-Tensor|store_user_object_weakref|property of 'Tensor'"
    r" object has no setter|_ge_converter|not Private|has no option _|'record_stream'"
    r"|does not have the attribute 'get_hccl_comm_name'"
)
# Why a test fails, by its name and its error.
_CAUSES = {
    r"npu:1": "wants two NPUs",
    r"same dtype.*(Half|Float)": "multiplies f16 by f32, which is eager PyTorch's error on a CPU too",
    r"batch_matmul_transpose.*not true": "wants the last bit of an eager f16 product;"
    " ours is as near to float64 (mean error 3.1808e-3 and eager's 3.1808e-3 at depth 512),"
    " and rounds 0.2 % of the elements otherwise",
    r"test_export_(bf16|enable|to_fp8|weight|with_(a|s))|ref_data|_export_st.*uint": "counts"
    " nodes of the engine in the text of an exported graph",
    r"debug_dump|TestLogDebug": "wants a file for each pass of TorchAir, or its folder",
    r"uint": "computes in a dtype that PyTorch has no kernel for",
    r"IR operator Custom": "has a converter to an operator that does not exist",
    r"test_auto_converter": "has an operator without a kernel",
    r"multi_mutated_input_with_view_before": "has an operator whose shape function"
    " gives another shape than its kernel",
    r"correct_module_names": "wants functions to be of the older modules that have them",
    r"public_Class|upsample_nearest2d|test_compile_fx|capture_error_mode|dump_node_info": "looks for attributes or texts of TorchAir's own classes and graphs",
    r"test_compiled_fx_artifacts": "loads a text that calls private classes of TorchAir",
    r"hcom_cache_st.*takes more than": "counts calls of a private function of the class of"
    " groups, which this one does not have; a process of it waits for another",
    r"test_record_stream": "replaces Tensor.record_stream",
}
_INTERNAL = ("ge_concrete_graph",)  # private, though its name has no underscore
# public by their names, and not in the allow-list of TorchAir
_SUBMODULES = ("npu_export", "patterns")


def install() -> None:
    """Makes `torchair`, `npugraph_ex`, and the device of TorchAir's tests."""
    import torch

    import npugraph_ex
    import torch_npu  # noqa: F401
    import torchair

    for package in (npugraph_ex, torchair):
        places = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for place in places:
            if "._impl" not in place.name:
                importlib.import_module(place.name)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in (*_PACKAGES, "torch_npu") and "._impl" not in name:
            _complete(module)
    sys.meta_path.append(_Finder())
    # TorchAir's tests bring a device in C++ that computes nothing; ours is there
    device = types.ModuleType("_privateuse1_backend")
    device.npu_device = lambda: torch.device("npu")  # type: ignore[attr-defined]
    device.register_hook = lambda: None  # type: ignore[attr-defined]
    sys.modules[device.__name__] = device
    torch.utils.rename_privateuse1_backend = lambda name: None
    torch._register_device_module = lambda name, module: None
    Private.strict = multiprocessing.parent_process() is not None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one test: a word of KINDS, and why."""

    file: str
    test: str
    outcome: str
    reason: str = ""
    trace: str = ""


def _of(file: str, test: str, error: Any) -> Outcome:
    kind, value, frames = error
    trace = "".join(traceback.format_exception(kind, value, frames))
    for cause in _chain(value):
        if isinstance(cause, PrivateUse):
            return Outcome(file, test, "private", str(cause), trace)
    # an error of a compiler or of another process has the first one in its text
    hidden = _HIDDEN.search(trace)
    if hidden:
        return Outcome(file, test, "private", hidden[1] or hidden[2], trace)
    lines = str(value).strip().splitlines() or [""]
    asserted = [
        linecache.getline(frame.filename, number)
        for frame in traceback.extract_tb(frames)
        for number in range(frame.lineno or 0, (frame.end_lineno or 0) + 1)
    ]
    reads_log = _READS_LOG.search("\n".join([*asserted, lines[0]]))
    outcome = "log" if kind is AssertionError and reads_log else "failed"
    return Outcome(file, test, outcome, f"{kind.__name__}: {lines[0]}"[:140], trace)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _Results(unittest.TestResult):
    """Writes each outcome when it is there: a test may end the process."""

    def __init__(self, file: str, lines: Any) -> None:
        super().__init__()
        self.file, self.lines = file, lines
        self.wrong: Outcome | None = None
        self.said = 0  # how much of the errors' file there was before the test

    def _write(self, outcome: Outcome) -> None:
        self.lines.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
        self.lines.flush()

    def startTest(self, test: Any) -> None:
        self.wrong = None
        self.said = os.fstat(2).st_size
        self.lines.write(json.dumps({"started": test.id()}) + "\n")
        self.lines.flush()

    def addError(self, test: Any, err: Any) -> None:
        self.wrong = self.wrong or _of(self.file, test.id(), err)
        if not isinstance(test, unittest.TestCase):
            self._write(self.wrong)

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.wrong = Outcome(self.file, test.id(), "skipped", reason)

    def stopTest(self, test: Any) -> None:
        outcome = self.wrong or Outcome(self.file, test.id(), "passed")
        if outcome.outcome == "failed" and os.fstat(2).st_size > self.said:
            outcome = self._of_processes(outcome)
        self._write(outcome)

    def _of_processes(self, outcome: Outcome) -> Outcome:
        """The outcome of a test whose own processes say more about it."""
        with open("errors", encoding="utf-8", errors="replace") as file:
            file.seek(self.said)
            text = file.read()[-100_000:]
        hidden = _HIDDEN.search(text)
        trace = f"{outcome.trace}\n{text[-4000:]}"
        if hidden:
            return Outcome(
                self.file, outcome.test, "private", hidden[1] or hidden[2], trace
            )
        errors = re.findall(r"^(?:\w+\.)*(\w+Error: .*)$", text, re.MULTILINE)
        reason = errors[-1][:140] if errors else outcome.reason
        return Outcome(self.file, outcome.test, "failed", reason, trace)


def _work(name: str, file: str, lines: str, skip: Iterable[str]) -> None:
    """Runs the tests of a module, in this process."""
    import torch

    install()
    call = unittest.TestCase._callTestMethod  # type: ignore[attr-defined]

    def strictly(self: Any, method: Any) -> None:
        Private.strict = True
        try:
            call(self, method)
        finally:
            Private.strict = False
            torch._dynamo.reset()

    unittest.TestCase._callTestMethod = strictly  # type: ignore[attr-defined]
    with open(lines, "a", encoding="utf-8") as written:
        results = _Results(file, written)
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(name)
        except BaseException:  # noqa: BLE001 - a file of tests may raise anything
            results._write(_of(file, f"{name}.*", sys.exc_info()))
            return
        run_each(suite, results, skip)


def run_each(suite: Any, results: unittest.TestResult, skip: Iterable[str]) -> None:
    for test in _flat(suite):
        if test.id() not in skip:
            # a suite of one, so that setUpClass runs
            unittest.TestSuite([test]).run(results)


def _flat(suite: Any) -> Iterator[Any]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


_SITE = (
    "import sys\n"
    "said = ' '.join(sys.orig_argv)\n"
    "if 'spawn_main' in said or '.py' in said and '--work' not in said:\n"
    "    import public_tests\n    public_tests.install()\n"
)


class Process(Protocol):
    """A process that runs tests."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...


class Start(Protocol):
    """Starts the tests of a file, in a new session in `folder`. Outcomes go to `lines`,
    which is a file there, and standard error to `errors`."""

    def __call__(
        self, path: Path, file: str, folder: str, lines: str, errors: Any, skip: str
    ) -> Process: ...


def start(
    path: Path, file: str, folder: str, lines: str, errors: Any, skip: str
) -> Process:
    """A new interpreter, which has this script's stand-ins in each of its processes."""
    (Path(folder) / "sitecustomize.py").write_text(_SITE)
    command = [sys.executable, __file__, "--work", path.stem, file, lines, skip]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | environment_of(path, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,
    )


def environment_of(path: Path, folder: str) -> dict[str, str]:
    """What tests see beside the environment of this process."""
    here = Path(__file__).resolve().parent
    places = [folder, str(path.parent), str(here), *filter(None, sys.path)]
    return {"ANABRANCH_CACHE_HOME": folder, "PYTHONPATH": os.pathsep.join(places)}


def run(
    path: Path, file: str, start: Start = start, seconds: int = SECONDS
) -> list[Outcome]:
    """The outcomes of a file of tests, each of which may work `seconds`. A test that ends
    the process, or that does not end, is one that failed; the others run in a new
    process."""
    skip: list[str] = []
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        while True:
            lines = Path(folder) / "lines"
            lines.write_text("")
            errors = stack.enter_context((Path(folder) / "errors").open("w"))
            process = start(path, file, folder, str(lines), errors, ",".join(skip))
            ended = _wait(process, lines, seconds)
            running = ""
            for line in lines.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if "started" in entry:
                    running = entry["started"]
                else:
                    running = ""
                    found.append(Outcome(**entry))
                    skip.append(entry["test"])
            if not running:
                if ended:
                    found.append(Outcome(file, f"{path.stem}.*", "failed", ended))
                return found
            found.append(Outcome(file, running, "failed", ended or "the process ended"))
            skip.append(running)


def _wait(process: Process, lines: Path, seconds: int) -> str:
    """How a process ended; "" if by itself and well. A test may have `seconds` of CPU
    time, so that other programs of the host change no outcome, and rest as long."""
    size, begun, patience = lines.stat().st_size, 0.0, _Patience(seconds)
    while process.poll() is None:
        time.sleep(0.5)
        worked = _worked(process.pid)
        rests = patience.rests(worked)
        if lines.stat().st_size != size:
            size, begun = lines.stat().st_size, worked
        elif rests or worked - begun > seconds:
            os.killpg(process.pid, 9)
            process.wait()
            ending = ", in which it rests" if rests else " of CPU time"
            return f"it takes more than {seconds} s{ending}"
    return f"exit status {process.returncode}" if process.returncode else ""


class _Patience:
    """Tells a test that waits for nothing from one that gets little of the CPU."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.worked, self.since = 0.0, time.monotonic()

    def rests(self, worked: float) -> bool:
        """Whether the test has worked less than a hundredth of `seconds` for so long."""
        if worked - self.worked > self.seconds / 100:
            self.worked, self.since = worked, time.monotonic()
        return time.monotonic() - self.since > self.seconds


def _worked(session: int) -> float:
    """The CPU time that the processes of a session and their ended children have had."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a process stands in parentheses and may have blanks.
            fields = place.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cause(result: Outcome) -> str:
    """Why a test fails: one of _CAUSES, or its error without names of folders."""
    said = f"{result.test} {result.reason}"
    known = [why for pattern, why in _CAUSES.items() if re.search(pattern, said)]
    return known[0] if known else _FOLDER.sub("FOLDER", result.reason)


def table(results: list[Outcome]) -> str:
    """The page. Names of folders are removed."""
    results = [
        dataclasses.replace(result, outcome="private")
        if result.outcome == "failed" and _INSIDE.search(result.reason + result.trace)
        else result
        for result in results
    ]
    files = collections.defaultdict(collections.Counter)  # type: ignore[var-annotated]
    for result in results:
        files[result.file][result.outcome] += 1
    rows = [
        f"| `{file}` | " + " | ".join(str(counts[kind]) for kind in KINDS) + " |"
        for file, counts in files.items()
    ]
    total = collections.Counter(result.outcome for result in results)
    count = (
        f"{total['passed']} of {len(results)} tests pass; {total['private']} are of private"
        f" functions, {total['log']} of logs, {total['failed']} fail."
    )
    lines = [HEAD, count, "", f"| file | {' | '.join(KINDS)} |"]
    lines += ["|---" * (len(KINDS) + 1) + "|", *rows]
    causes = collections.defaultdict(list)
    for result in results:
        if result.outcome == "failed":
            name = result.test.rpartition(".")[2]
            causes[_cause(result)].append(f"`{name}` ({result.file.partition('/')[0]})")
    if causes:
        lines += ["", "## The tests that fail", ""]
    for cause in sorted(causes):
        text = f"- {cause}: {', '.join(causes[cause])}"
        indent = {"subsequent_indent": "  ", "break_long_words": False}
        lines.append(textwrap.fill(text, WIDTH, **indent))  # type: ignore[arg-type]
    return "\n".join(lines) + "\n"


def told(about: str, only: str) -> tuple[argparse.Namespace, dict[str, list[Outcome]]]:
    """The command line of a runner, and the outcomes by file that its results have."""
    parser = argparse.ArgumentParser(description=about.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, help="the page to write")
    parser.add_argument("--results", type=Path, help="outcomes, read and written")
    parser.add_argument("--only", default="", help=only)
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="of CPU time of a test"
    )
    arguments = parser.parse_args()
    kept: dict[str, list[Outcome]] = {}
    if arguments.results and arguments.results.exists():
        for line in arguments.results.read_text(encoding="utf-8").splitlines():
            outcome = Outcome(**json.loads(line))
            kept.setdefault(outcome.file, []).append(outcome)
    return arguments, kept


def main() -> int:
    if sys.argv[1:2] == ["--work"]:
        name, file, lines, skip = sys.argv[2:6]
        _work(name, file, lines, skip.split(","))
        return 0
    arguments, kept = told(__doc__, "part of the names of files")
    for folder in FOLDERS:
        for path in sorted((arguments.folder / folder).glob("*.py")):
            file = f"{folder}/{path.name}"
            text = path.read_text(encoding="utf-8")
            if arguments.only in file and "def test" in text:
                kept[file] = run(path, file, seconds=arguments.seconds)
                counts = collections.Counter(o.outcome for o in kept[file])
                print(file, dict(counts), flush=True)
                if arguments.results:
                    keep(arguments.results, kept)
    if arguments.table:
        files = sorted(kept)
        arguments.table.write_text(table([o for f in files for o in kept[f]]))
    return 0


def keep(path: Path, kept: dict[str, list[Outcome]]) -> None:
    lines = [json.dumps(dataclasses.asdict(o)) for f in sorted(kept) for o in kept[f]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
