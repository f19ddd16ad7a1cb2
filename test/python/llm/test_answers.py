"""anabranch.llm.export(answer=N): one call of a package generates an answer."""

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
CAPACITY, MOST, SIZE = 24, 12, 8


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    model, path = llama(), tmp_path_factory.mktemp("llm") / "model.anb"
    llm.export(model, path, max_length=CAPACITY, sizes=(1, SIZE), answer=MOST)
    return model, path


def ask(package, tokens: list[int], start=0, count=MOST, end=-1) -> list[int]:
    part = np.zeros((1, SIZE), np.int64)
    part[0, : len(tokens)] = tokens
    numbers = {"start": start, "last": len(tokens) - 1, "count": count, "end": end}
    given = {name: np.array([value]) for name, value in numbers.items()}
    found, made = package(tokens=part, **given)
    assert (found[made[0] :] == -1).all()
    return found[: made[0]].tolist()


def test_an_answer_is_generate_s(exported):
    model, path = exported
    package = anabranch.load(path)
    tokens = prompt(1, 13)
    wanted = model.generate(tokens, max_new_tokens=MOST, **PLAIN)[0, 13:].tolist()
    first, rest = tokens[0, :SIZE].tolist(), tokens[0, SIZE:].tolist()
    # A part of the prompt generates nothing, and the state holds 24 tokens.
    assert ask(package, first, count=0) == []
    assert ask(package, rest, start=SIZE) == wanted[: CAPACITY - 13 + 1]
    for count in (1, 2):
        assert ask(package, rest, start=SIZE, count=count) == wanted[:count]
    end = wanted.index(wanted[2])
    assert ask(package, rest, start=SIZE, end=wanted[2]) == wanted[: end + 1]


def test_the_program_in_cpp_answers_by_one_call(exported, tmp_path):
    model, path = exported
    program, library = tmp_path / "answer", ROOT / "build" / "lib"
    source = ROOT / "examples" / "08_generate" / "answer.cpp"
    options = ["-std=c++17", "-Wall", "-Werror", "-I", ROOT / "include"]
    link = ["-L", library, "-lanabranch_runtime", f"-Wl,-rpath,{library}"]
    subprocess.run(["c++", *options, source, "-o", program, *link], check=True)
    tokens = prompt(1, 7)

    def run(*arguments):
        command = [program, path, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    wanted = model.generate(tokens, max_new_tokens=MOST, **PLAIN)[0, 7:].tolist()
    done = run(-1, *tokens[0].tolist())
    assert done.returncode == 0, done.stderr
    assert list(map(int, done.stdout.split())) == wanted
    refused = run(-1, *range(CAPACITY - 1))
    assert refused.returncode and "a prompt of 23 tokens" in refused.stderr


@pytest.mark.parametrize("answer", [0, True, 2.5])
def test_wrong_numbers(answer, tmp_path):
    with pytest.raises(ValueError, match="answer must be"):
        llm.export(llama(), tmp_path / "x", answer=answer)
