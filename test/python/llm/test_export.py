"""anabranch.llm.export: one package that reads prompts and decodes, without PyTorch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from decoders import PLAIN, llama, prompt

import anabranch
from anabranch import llm

ROOT = Path(__file__).parents[3]
CAPACITY = 40


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    model, path = llama(), tmp_path_factory.mktemp("llm") / "model.anb"
    llm.export(model, path, max_length=CAPACITY, sizes=(1, 8))
    return model, path


def greedy(package, tokens: list[int], new: int) -> list[int]:
    """Reads a prompt and decodes greedily, as examples/08_generate does."""
    found, done = list(tokens), 0
    while len(found) < len(tokens) + new:
        rest = found[done:]
        size = 8 if len(rest) > 1 else 1
        part = np.zeros((1, size), np.int64)
        count = min(size, len(rest))
        part[0, :count] = rest[:count]
        start, last = np.array([done]), np.array([count - 1])
        logits = package(tokens=part, start=start, last=last)
        done += count
        if done == len(found):
            found.append(int(logits[0].argmax()))
    return found


def test_tokens_equal_eager(exported):
    model, path = exported
    package = anabranch.load(path)
    for length in (1, 7, 19):
        tokens = prompt(1, length)
        expected = model.generate(tokens, max_new_tokens=10, **PLAIN)[0].tolist()
        assert greedy(package, tokens[0].tolist(), 10) == expected
    # Another session has a state of its own, which begins empty.
    assert not any(package.session().state[name].any() for name in package.state)
    package.state.reset()
    assert not any(package.state[name].any() for name in package.state)


def test_weights_are_in_the_package_once(exported):
    model, path = exported
    weights = sum(p.nbytes for p in model.parameters())
    state = sum(value.nbytes for value in anabranch.load(path).state.values())
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    # Packing pads panels to whole vectors, and this model's panels are tiny.
    assert size < 3 * weights + state + (1 << 20)


def test_the_program_in_cpp_generates(exported, tmp_path):
    model, path = exported
    program, library = tmp_path / "generate", ROOT / "build" / "lib"
    source = ROOT / "examples" / "08_generate" / "generate.cpp"
    options = ["-std=c++17", "-I", ROOT / "include", "-L", library]
    link = ["-lanabranch_runtime", f"-Wl,-rpath,{library}"]
    subprocess.run(["c++", *options, source, "-o", program, *link], check=True)

    def run(*arguments):
        command = [program, path, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    tokens = prompt(1, 19)
    expected = model.generate(tokens, max_new_tokens=12, **PLAIN)[0, 19:].tolist()
    made = run("--new", 12, *tokens[0].tolist())
    assert made.returncode == 0, made.stderr
    assert list(map(int, made.stdout.split())) == expected
    assert "tokens/s" in made.stderr
    ended = run("--new", 12, "--end", expected[2], *tokens[0].tolist())
    end = expected.index(expected[2]) + 1
    assert list(map(int, ended.stdout.split())) == expected[:end]
    drawn = [
        run("--new", 8, "--temperature", 5, "--seed", seed, 5).stdout
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    for arguments, text in (
        (["--new", 30, *tokens[0].tolist()], "state holds 40"),
        (["--new", "x", 5], "--new needs a number"),
        (["--colour", 1, 5], "no option --colour"),
        ([], "usage"),
    ):
        refused = run(*arguments)
        assert refused.returncode and text in refused.stderr


def test_anabranch_run_fills_the_state(exported, tmp_path):
    model, path = exported
    files = []
    for name, value in (("tokens", [[5]]), ("start", [0]), ("last", [0])):
        files.append(tmp_path / f"{name}.npy")
        np.save(files[-1], np.array(value))
    program = ROOT / "build" / "bin" / "anabranch-run"

    def run(*inputs):
        command = [program, path, "--output-dir", tmp_path, "--inputs", *inputs]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run(*files).returncode == 0
    logits = np.load(tmp_path / "output0.npy")
    expected = model(torch.tensor([[5]])).logits[0].detach()
    torch.testing.assert_close(torch.from_numpy(logits), expected, rtol=1e-3, atol=1e-4)
    refused = run(files[0])
    assert "3 inputs besides" in refused.stderr


@pytest.mark.parametrize("sizes", [(), (8,), (1, 2.0), (0, 1), (64,)])
def test_sizes_that_are_none(sizes, tmp_path):
    with pytest.raises(ValueError, match="sizes must be ints from 1 to 40"):
        llm.export(llama(), tmp_path / "m", max_length=CAPACITY, sizes=sizes)
