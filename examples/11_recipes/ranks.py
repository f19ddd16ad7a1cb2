"""Runs a script of the recipes, a process for each rank.

The processes are forks of this one, which has imported what every recipe imports: that
takes longer than a tiny model's run."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ENTRY = Path("executor", "offline", "infer.py")
_LAUNCH = str(Path(__file__).with_name("launch.py"))
_TEXT = re.compile(r"Request (\d+): outputs: (.*)")
_TIME = re.compile(r"(?:decode|mtp model) average inference time cost is ([\d.]+) ms")
_CPU = re.compile(r"^step of decode: ([\d.]+) ms of CPU time", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line \d+', re.MULTILINE)
_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|NotFound): .*)$", re.MULTILINE)


@dataclass
class Ended:
    """How a run ended: the texts of rank 0's requests, the milliseconds of a step of
    decode and those of its CPU time, or the error and the end of the log of the first rank
    that failed."""

    texts: dict[str, str] = field(default_factory=dict)
    step: str = "?"
    cpu: str = "?"
    error: str = ""
    log: str = ""


def prepare(recipes: Path, folder: Path) -> None:
    """Imports what the processes share. `folder` has modules that stand for others."""
    sys.path[:0] = [str(recipes), str(folder)]
    import torch_npu  # noqa: F401 - it imports PyTorch and torchair

    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401 - every recipe imports it


def run(recipes: Path, settings: Path, ranks: int, port: int, limit: float) -> Ended:
    """Runs the recipe's offline inference in each rank, at most `limit` seconds."""
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "RANK_OFFSET": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [str(recipes / ENTRY), "--yaml_file_path", str(settings)]
    logs = [settings.with_suffix(f".{rank}.log") for rank in range(ranks)]
    started = []
    for rank, log in enumerate(logs):
        own = {name: str(rank) for name in ("RANK", "LOCAL_RANK", "RANK_ID")}
        started.append(_fork(command, {**common, **own}, log, settings.parent))
    failed = [place for place, code in _wait(started, limit) if code]
    if not failed:
        said = logs[0].read_text(errors="replace")
        step, cpu = ((form.findall(said) or ["?"])[-1] for form in (_TIME, _CPU))
        return Ended(dict(_TEXT.findall(said)), step, cpu)
    # A rank that lost another one ends with that, not with the cause.
    said = logs[failed[0]].read_text(errors="replace")
    errors = _ERROR.findall(said) or [f"rank {failed[0]} was stopped"]
    return Ended(error=errors[-1] + _own_place(said, recipes), log=said[-3000:])


def _own_place(said: str, recipes: Path) -> str:
    """Names the file of the recipes that raised the last error, if one did."""
    last = Path((_FRAME.findall(said) or [""])[-1])
    if not last.is_relative_to(recipes):
        return ""
    return f" (raised by {last.relative_to(recipes)})"


def _fork(command: list[str], more: dict[str, str], log: Path, folder: Path) -> int:
    """Starts a rank. Returns its process."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(written, number)
        sys.stdout = sys.stderr = os.fdopen(written, "w", buffering=1)
        os.chdir(folder)
        os.environ.update(more)
        sys.argv = [_LAUNCH, *command]
        runpy.run_path(_LAUNCH, run_name="__main__")
        code = 0
    except SystemExit as end:
        print(end.code, flush=True)
        code = int(bool(end.code))
    except BaseException:  # noqa: BLE001 - the log has the error of a rank
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(processes: list[int], limit: float) -> Iterator[tuple[int, int]]:
    """Waits for all, and stops the others once one has failed or the time is over. Gives
    places and codes in the order in which they end."""
    running, end = dict(enumerate(processes)), time.monotonic() + limit
    while running:
        for place, process in list(running.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                del running[place]
                yield place, os.waitstatus_to_exitcode(status)
                if status:
                    end = min(end, time.monotonic() + 5)
        if time.monotonic() > end:
            for process in running.values():
                os.killpg(process, signal.SIGKILL)
        time.sleep(0.05)
