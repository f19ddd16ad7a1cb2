"""The example that runs the recipes starts each rank, and compares what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "11_recipes" / "run.py"
# Stands for the recipes: says one text, or another where it finds `differs`.
INFER = """
import json, os, sys
from datasets import load_dataset

settings = json.load(open(sys.argv[sys.argv.index("--yaml_file_path") + 1]))
model = settings["model_config"]
sizes = json.load(open(os.path.join(model["model_path"], "config.json")))
assert settings["parallel_config"]["world_size"] == int(os.environ["WORLD_SIZE"])
if os.path.exists(os.path.join(os.path.dirname(__file__), "fails")):
    raise SystemExit("rank " + os.environ["LOCAL_RANK"] + " cannot")
differs = os.path.exists(os.path.join(os.path.dirname(__file__), "differs"))
text = model["exe_mode"] if differs else str(sizes["num_hidden_layers"])
print("Request 0: outputs: " + text)
print("tiny decode average inference time cost is 1.25 ms")
"""


def run(folder: Path, *more: str):
    command = [sys.executable, str(EXAMPLE), str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_stand_in_runs(tmp_path) -> None:
    place = tmp_path / "executor" / "offline"
    missing = run(tmp_path)
    assert missing.returncode == 2
    assert "give a checkout of cann-recipes-infer" in missing.stderr
    place.mkdir(parents=True)
    (place / "infer.py").write_text(INFER)
    done = run(tmp_path, "--model", "qwen3_moe", "--ranks", "2", "--layers", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  0: '3'") == 2 and "a step 1.25 ms" in done.stdout
    assert "The texts are equal." in done.stdout
    (place / "differs").write_text("")
    other = run(tmp_path)
    assert other.returncode == 1 and "The texts are not equal." in other.stdout
    (place / "fails").write_text("")
    failed = run(tmp_path)
    assert "rank 0 ended with status 1" in failed.stderr and "cannot" in failed.stderr
