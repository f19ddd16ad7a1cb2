"""Measures what an exported package costs: the time from a file to the first result,
and memory.

deploying.py FOLDER    models exported under FOLDER (kept, made if missing), then every
                       figure from fresh processes, in turns

Files come from the page cache. "anabranch" compares all files with their hashes,
"trusted" does not, "reading" only reads them. The other contenders are AOTInductor,
OpenVINO (with its cache) and eager PyTorch, each without the time of its imports.
"opening" is the part of "anabranch" before the call."""

from __future__ import annotations

import functools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import peers
from harness import Row, Workload, case
from models import bert, minilm

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5


def llama() -> Workload:
    """Twelve layers of a Llama, without a cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=12,
        hidden_size=768,
        intermediate_size=2048,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=32000,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).eval()

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=tokens).logits

    return Workload(Decoder().eval(), (torch.arange(32)[None],))


MODELS: dict[str, Callable[[], Workload]] = {
    "minilm": minilm,
    "bert-base": bert,
    "llama-12": llama,
}


def export(model: str, folder: Path) -> None:
    """Writes the package, AOTInductor's package, and OpenVINO's model with its cache."""
    import anabranch

    work = MODELS[model]()
    module: Any = work.function
    ours, theirs = folder / model, folder / f"{model}.pt2"
    if not ours.exists():
        anabranch.export(module, ours, tuple(work.arguments))
    if not theirs.exists():
        with torch.no_grad():
            program = torch.export.export(module, tuple(work.arguments))
            torch._inductor.aoti_compile_and_package(program, package_path=str(theirs))
    if not (folder / f"{model}.xml").exists():
        engine = peers.load("openvino")
        with torch.no_grad():
            program = torch.export.export(module, tuple(work.arguments))
        engine.save_model(
            engine.convert_model(program),
            str(folder / f"{model}.xml"),
            compress_to_fp16=False,
        )
        open_by_openvino(model, folder)  # this call fills its cache


def open_by_openvino(model: str, folder: Path) -> Any:
    core = peers.load("openvino").Core()
    core.set_property({"CACHE_DIR": str(folder / "openvino")})
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    return core.compile_model(str(folder / f"{model}.xml"), "CPU", settings)


def program(folder: Path) -> Path:
    """examples/05_deploy, built against an installed runtime."""
    build = folder / "program"
    if not (build / "deploy").exists():
        run = functools.partial(subprocess.run, check=True, capture_output=True)
        where = str(folder / "installed")
        install = ["cmake", "--install", ROOT / "build", "--component", "runtime"]
        run([*install, "--prefix", where])
        source = ROOT / "examples/05_deploy"
        how = [f"-DCMAKE_PREFIX_PATH={where}", "-DCMAKE_BUILD_TYPE=Release"]
        run(["cmake", "-S", source, "-B", build, *how])
        run(["cmake", "--build", build])
    return build / "deploy"


def first_by_program(
    deploy: Path, package: Path, *how: str, what: str = "first result after"
) -> float:
    """Milliseconds from `open` to the first result, or until the program prints `what`."""
    done = subprocess.run(
        [deploy, package, *how], check=True, capture_output=True, text=True
    )
    found = re.search(rf"{what} ([\d.]+) ms", done.stderr)
    assert found
    return float(found[1])


def first_in_python(model: str, way: str, folder: Path) -> float:
    """Milliseconds to the first result, without the imports."""
    work = MODELS[model]() if way != "eager" else None
    with torch.no_grad():
        start = time.perf_counter()
        if way == "aotinductor":
            assert work
            load = torch._inductor.aoti_load_package(str(folder / f"{model}.pt2"))
            load(*work.arguments)
        elif way == "openvino":
            assert work
            peers.load("openvino")  # an import
            start = time.perf_counter()
            request = open_by_openvino(model, folder)
            request([argument.numpy() for argument in work.arguments])
        else:
            work = MODELS[model]()
            work.function(*work.arguments)
    return (time.perf_counter() - start) * 1e3


def read_once(package: Path) -> float:
    """Milliseconds to read the package's bytes."""
    start = time.perf_counter()
    for path in package.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                piece = bytearray(1 << 18)
                while file.readinto(piece):
                    pass
    return (time.perf_counter() - start) * 1e3


def shared_memory(deploy: Path, package: Path) -> dict[str, float]:
    """MiB of one of two processes that run the package at the same time: its own
    memory, and the memory that it shares with the other."""
    processes = [
        subprocess.Popen(
            [deploy, package, "100000000", "8", "trust"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    try:
        time.sleep(8)
        text = Path(f"/proc/{processes[0].pid}/smaps").read_text()
    finally:
        for each in processes:
            each.kill()
            each.wait()
    sums: dict[str, float] = {}
    for kind, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE):
        sums[kind] = sums.get(kind, 0) + int(kib) / 1024
    return sums


def in_turns(model: str, folder: Path) -> list[Row]:
    ways: dict[str, Callable[[], float]] = {
        "anabranch": lambda: first_by_program(deploy, folder / model),
        "trusted": lambda: first_by_program(deploy, folder / model, "1", "8", "trust"),
        "opening": lambda: first_by_program(deploy, folder / model, what="open"),
        "reading": lambda: read_once(folder / model),
        "aotinductor": lambda: fresh(model, "aotinductor", folder),
        "openvino": lambda: fresh(model, "openvino", folder),
        "eager": lambda: fresh(model, "eager", folder),
    }
    fresh(model, "export", folder)
    deploy = program(folder)
    seen: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, measure in ways.items():
            seen[name].append(measure())
    rows = []
    for name, values in seen.items():
        row = Row(name, statistics.median(values), "ms")
        row.note = f"{row.value:.1f} ms"  # most have no column of their own
        row.low, row.high = min(values), max(values)
        rows.append(row)
    memory = shared_memory(deploy, folder / model)
    own = memory["Private_Dirty"] + memory["Private_Clean"]
    rows.append(
        Row("own memory", own, "MiB", note=f"shared {memory['Shared_Clean']:.0f} MiB")
    )
    return rows


def fresh(model: str, way: str, folder: Path) -> float:
    done = subprocess.run(
        [sys.executable, __file__, str(folder), model, way],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return json.loads(done.stdout.strip().rsplit("\n", 1)[-1])


def in_a_folder(model: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return in_turns(model, Path(folder))


@case("deploy-minilm", extra=True)
def deploy_minilm() -> list[Row]:
    """from a package to MiniLM's first result, in C++"""
    return in_a_folder("minilm")


@case("deploy-bert", extra=True)
def deploy_bert() -> list[Row]:
    """from a package to BERT-base's first result, in C++"""
    return in_a_folder("bert-base")


@case("deploy-llama", extra=True)
def deploy_llama() -> list[Row]:
    """from a package to the first result of a Llama of 12 layers, in C++"""
    return in_a_folder("llama-12")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if len(sys.argv) == 4:
        if sys.argv[3] == "export":
            export(sys.argv[2], place)
            print(0)
        else:
            print(json.dumps(first_in_python(sys.argv[2], sys.argv[3], place)))
    else:
        for name in MODELS:
            for row in in_turns(name, place):
                print(
                    f"{name:10} {row.contender:12} {row.value:8.1f} {row.unit} {row.note}"
                )
