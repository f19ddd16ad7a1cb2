"""Servers of examples/10_vllm: two answer its client, one takes the other's weights while
it runs, and one takes the place of a server whose worker was killed.

ANABRANCH_VLLM_MODEL is the folder that its make_model.py has written; scripts/vllm_python.py
says what else these tests need."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import vllm_python
from safetensors.torch import load_file, save_file

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "10_vllm"
MODEL = os.environ.get("ANABRANCH_VLLM_MODEL", "")
QUESTION = ("What", "is", "a", "river?")
pytestmark = [
    vllm_python.needs_vllm,
    pytest.mark.skipif(not MODEL, reason="ANABRANCH_VLLM_MODEL is not set"),
]


def example(script: str, *arguments: str) -> str:
    command = [vllm_python.PYTHON, str(EXAMPLE / script), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300
    ).stdout


class Server(NamedTuple):
    address: str
    process: subprocess.Popen

    def ask(self) -> str:
        return example("ask.py", "--server", self.address, *QUESTION)


@contextlib.contextmanager
def server(model: Path, log: Path) -> Iterator[Server]:
    """A server that answers. All servers share a cache."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [vllm_python.PYTHON, "-m", "anabranch_vllm", "serve", str(model)]
    command += ["--port", port, "--dtype", "bfloat16", "--max-model-len", "256"]
    environment = os.environ | {
        "ANABRANCH_CACHE_HOME": str(log.parent / "programs"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(log.parent / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    with log.open("w") as to:
        process = subprocess.Popen(
            command, env=environment, stdout=to, stderr=to, start_new_session=True
        )
    try:
        address = f"http://localhost:{port}"
        wait_for(f"{address}/health", process, log)
        yield Server(address, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 600
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(address, timeout=5)
            return
        time.sleep(1)
    raise AssertionError(log.read_text()[-4000:])


def other_weights(model: Path, to: Path) -> Path:
    """A copy of a model that answers something else: two layers have changed places."""
    places = {".layers.3.": ".layers.4.", ".layers.4.": ".layers.3."}

    def moved(name: str) -> str:
        for old, new in places.items():
            if old in name:
                return name.replace(old, new)
        return name

    shutil.copytree(model, to)
    for file in to.glob("*.safetensors"):
        weights = load_file(file)
        renamed = {moved(name): weight for name, weight in weights.items()}
        save_file(renamed, file, {"format": "pt"})
    return to


def test_two_models_and_new_weights(tmp_path) -> None:
    other = other_weights(Path(MODEL), tmp_path / "other")
    with server(Path(MODEL), tmp_path / "first.log") as first:
        with server(other, tmp_path / "second.log") as second:
            answers = [first.ask(), second.ask()]
        assert answers[0] != answers[1]
        example("new_weights.py", "--server", first.address, str(other))
        assert first.ask() == answers[1]
    start, requests = (
        (tmp_path / "first.log").read_text().split("Application startup complete")
    )
    assert "Anabranch: 1 program" in start
    assert "Anabranch: compiles" not in requests
    # The worker knows the variable.
    assert any(path.is_file() for path in (tmp_path / "programs").rglob("*"))


def kill_worker(process: subprocess.Popen) -> None:
    """Kills the process of a server that has the model."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    (worker,) = [
        int(child)
        for child in children.split()
        if "EngineCore" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    os.kill(worker, signal.SIGKILL)


def test_a_worker_that_is_killed(tmp_path) -> None:
    """Its server ends, as vLLM's do, and the next one compiles nothing."""
    with server(Path(MODEL), tmp_path / "first.log") as first:
        answer = first.ask()
        kill_worker(first.process)
        first.process.wait(300)
    with server(Path(MODEL), tmp_path / "second.log") as second:
        assert second.ask() == answer
    assert "EngineDeadError" in (tmp_path / "first.log").read_text()
    assert "Anabranch: compiles" not in (tmp_path / "second.log").read_text()


def test_a_model_that_vllm_refuses(tmp_path) -> None:
    """It says what vLLM says without this package."""
    config = {"architectures": ["NoSuchForCausalLM"], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = []
    for plugins in ({}, {"VLLM_PLUGINS": ""}):
        process = subprocess.run(
            [vllm_python.PYTHON, "-m", "anabranch_vllm", "serve", str(tmp_path)],
            env=os.environ | {"HF_HUB_OFFLINE": "1"} | plugins,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert process.returncode
        lines = process.stderr.splitlines()
        said.append([line for line in lines if "Value error, " in line])
    assert said[0] == said[1]
    assert "NoSuchForCausalLM" in "".join(said[0])
