"""The example that runs the recipes starts each rank, and compares what they say."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "11_recipes"
# Stand for the recipes. The script says the number of layers, and what the example makes
# of a weight and of a cache; or the mode where it finds `differs`.
INFER = """
import json, os, sys
import custom_ops
import torch
from datasets import load_dataset
from executor.core.kv_cache import cache_utils
from executor.core.model_worker.model_worker import ModelWorker
from executor.model_loader import dummy_loader

settings = json.load(open(sys.argv[sys.argv.index("--yaml_file_path") + 1]))
model = settings["model_config"]
sizes = json.load(open(os.path.join(model["model_path"], "config.json")))
assert settings["parallel_config"]["world_size"] == int(os.environ["WORLD_SIZE"])
here = os.path.dirname(__file__)
if os.path.exists(os.path.join(here, "refuses")):
    raise ValueError("exe_mode='ge_graph' is not supported; only 'eager' is allowed.")
if os.path.exists(os.path.join(here, "fails")):
    raise ValueError("rank " + os.environ["LOCAL_RANK"] + " of " + here + " cannot")
layer = torch.nn.Linear(64, 64)
dummy_loader.initialize_dummy_weights(layer)
assert 0.5 < layer(torch.randn(64)).std() < 2
cache = cache_utils._alloc_aligned_hbm_tensor(torch.bfloat16, 4)
assert cache.isnan().all()
text = str(sizes["num_hidden_layers"])
if os.path.exists(os.path.join(here, "differs")):
    text = model["exe_mode"]
steps = 40 if model["exe_mode"] == "eager" else 4
for is_prefill in (True, False, False, False):
    ModelWorker().inference(400 if is_prefill else steps, is_prefill=is_prefill)
print("Request 0: outputs: " + text)
print("tiny decode average inference time cost is 1.25 ms")
"""
WORKER = """
import time

class ModelWorker:
    def inference(self, model_inputs, is_prefill, is_mtp=False):
        start = time.time()
        sum(range(model_inputs * 10000))
        return None, time.time() - start
"""
MODULES = ("files", "ranks", "run", "table", "tiny")
PARTS = {
    "offline/infer.py": INFER,
    "core/kv_cache/cache_utils.py": "import torch\n"
    "def _alloc_aligned_hbm_tensor(dtype, size):\n"
    "    return torch.zeros(size, dtype=dtype)\n",
    "core/model_worker/model_worker.py": WORKER,
    "model_loader/dummy_loader.py": "def initialize_dummy_weights(model):\n    pass\n",
}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command of the example in this process, which has imported PyTorch. Returns
    its status, and what it says."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLE), *sys.path])
    # The stand-ins do not import it.
    monkeypatch.setitem(sys.modules, "transformers", None)
    # The tests have a module `ranks` too.
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)

    def call(command: str, *arguments: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [command, *map(str, arguments)])
        try:
            code = importlib.import_module(command).main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out + said.err

    yield call
    for name in MODULES:
        sys.modules.pop(name, None)


def write(folder: Path) -> Path:
    for name, text in PARTS.items():
        path = folder / "executor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "executor" / "offline"


def test_two_ways_of_a_model(run, tmp_path) -> None:
    code, said = run("run", tmp_path)
    assert code == 2 and "give a checkout of cann-recipes-infer" in said
    place = write(tmp_path)
    code, said = run("run", tmp_path, "--model", "qwen3_moe")
    assert code == 2 and "need --ranks 2" in said
    code, said = run("run", tmp_path, "--model", "gemma_4", "--ranks", 2, "--layers", 3)
    assert code == 0 and said.count("  0: '3'") == 2 and "a step 1.25 ms" in said
    assert "The texts are equal." in said
    eager, graph = map(float, re.findall(r"1.25 ms, ([\d.]+) ms of CPU time", said))
    assert eager > 4 * graph > 0
    (place / "differs").touch()
    code, said = run("run", tmp_path)
    assert code == 1 and "The texts are not equal." in said
    (place / "fails").touch()
    code, _ = run("run", tmp_path)
    assert "ValueError: rank 0 of" in str(code)


def test_the_table_keeps_what_has_run(run, tmp_path) -> None:
    place = write(tmp_path)
    page, results = tmp_path / "page.md", tmp_path / "results.jsonl"
    given = (tmp_path, "--page", page, "--results", results, "--only", "qwen3_8b")
    given += ("--kinds", "bf16", "--modes")
    assert run("table", *given, "eager")[1].count("1.25 ms a step") == 2
    (tmp_path / "more.jsonl").write_text(results.read_text())
    run("table", *given[:4], tmp_path / "more.jsonl", *given[5:], "ge_graph")
    assert re.search(r"2 \| passes \| - \| passes, \d+\.\dx \|", page.read_text())
    assert "4 passes" in page.read_text()
    (place / "differs").touch()
    run("table", *given, "npugraph_ex")
    (place / "fails").touch()
    run("table", *given, "ge_graph")
    said = page.read_text()
    for ranks in (1, 2):
        assert f"| `qwen3_8b` | bf16 | {ranks} | passes | other texts | 1 |" in said
    assert "| `qwen3_8b` | int8 | 1 | - | - | - |" in said
    assert "2 passes, 2 other texts, 2 errors" in said
    assert results.read_text().count("\n") == 6
    (place / "refuses").touch()
    results.write_text("")
    run("table", *given, "ge_graph")
    assert "| `qwen3_8b` | bf16 | 1 | - | - | no mode |" in page.read_text()
    error = (
        "1. ValueError: rank 0 of FOLDER cannot (raised by executor/offline/infer.py)"
    )
    assert error in said
    assert str(tmp_path) not in said
