"""benchmark/language/equal_bits.py gives all programs the same weights, and a figure of
each is the median of its turns."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from decoders import llama
from gguf_files import LlamaFile

from anabranch import llm

BENCHMARK = Path(__file__).parents[3] / "benchmark"
sys.path[:0] = [str(BENCHMARK), str(BENCHMARK / "language")]
import equal_bits
import gguf_weights
import token_engines

# How far a type is off at most, as a part of the largest value of a block of 32, or
# of its span (Q4_1). Scales and offsets are F16.
F16 = 2**-10
ERRORS = {
    "F32": 0.0,
    "BF16": 2**-8,
    "F16": 2**-11,
    "Q8_0": 1 / 254 + F16,
    "Q4_0": 1 / 8 + F16,
    "Q4_1": 1 / 30 + F16,
}


@pytest.fixture
def base(tmp_path):
    """A file whose words a made model takes."""
    LlamaFile(tmp_path / "base.gguf", types=("F32",))
    return tmp_path / "base.gguf"


def tensors(path: Path) -> dict[str, np.ndarray]:
    return dict(gguf_weights.floats(gguf.GGUFReader(path)))


@pytest.mark.parametrize("kind", gguf_weights.TYPES)
def test_weights_keep_their_values_in_another_type(kind, base, tmp_path):
    gguf_weights.write(str(base), kind, tmp_path / "other.gguf")
    given, found = tensors(base), tensors(tmp_path / "other.gguf")
    assert given.keys() == found.keys()
    for name, values in given.items():
        if values.ndim == 1:
            assert np.array_equal(found[name], values)
            continue
        has_bytes = name == "token_embd.weight" and kind.startswith("Q4")
        own = "Q8_0" if has_bytes else kind
        blocks = values.reshape(-1, 32)
        span = np.ptp(blocks, 1) if own == "Q4_1" else np.abs(blocks).max(1)
        off = np.abs(found[name].reshape(-1, 32) - blocks).max(1)
        assert (off <= ERRORS[own] * span).all()
    fields = gguf.GGUFReader(tmp_path / "other.gguf").fields
    for name, field in gguf.GGUFReader(base).fields.items():
        if not name.startswith("GGUF."):
            assert fields[name].contents() == field.contents()


@pytest.mark.parametrize("kind", ["F32", "Q4_1"])
def test_a_made_model_has_its_sizes_and_one_set_of_weights(
    kind, base, tmp_path, monkeypatch
):
    monkeypatch.setitem(gguf_weights.MADE, "264", (128, 2, 1))
    for file in ("a", "b"):
        gguf_weights.write("264", kind, tmp_path / f"{file}.gguf", str(base))
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    gguf_weights.write("264", "F32", tmp_path / "floats.gguf", str(base))
    whole = tensors(tmp_path / "floats.gguf")
    assert whole["blk.1.attn_k.weight"].shape == (64, 128)
    assert whole["blk.1.ffn_gate.weight"].shape == (352, 128)
    for name, values in tensors(tmp_path / "a.gguf").items():
        span = np.ptp(whole[name]) if kind == "Q4_1" else 0
        assert np.abs(values - whole[name]).max() <= span / 28


class Answers(io.StringIO):
    def rows(self) -> list[dict]:
        lines = self.getvalue().splitlines()
        return [json.loads(line.removeprefix(token_engines.MARK)) for line in lines]


def test_turns_time_the_second_half_of_their_steps(monkeypatch):
    """The clock counts steps: whatever comes between two ticks is one second."""
    now = [0.0]
    monkeypatch.setattr(token_engines.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(token_engines.time, "process_time", lambda: now[0] * 2)
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\n" * 3))
    answers = Answers()
    turns = token_engines.Turns(answers, 3)
    for step in range(turns.steps):
        turns.tick()
        half = step // token_engines.TOKENS
        now[0] += 100 if half % 2 == 0 else 1 + half
    turns.tick()
    ready = {"ready": True}
    times = [{"wall": wall, "cpu": 2 * wall} for wall in (2.0, 4.0, 6.0)]
    assert answers.rows() == [ready, times[0], ready, times[1], ready, times[2]]
    assert sys.stdin.read() == ""


def test_an_engine_that_loses_its_caller_ends(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit):
        token_engines.Turns(Answers(), 1).of(lambda: None, lambda: None)


class Program:
    """Stands for a process: gives these seconds, and then fails."""

    def __init__(self, name: str, seconds: list[float], note: str = "") -> None:
        self.name, self.note, self.error = name, note, ""
        self._seconds = seconds

    def prepare(self, cell: dict, rounds: int) -> None:
        pass

    def turn(self, is_last: bool, clock: str) -> float:
        if not self._seconds:
            self.error = "it broke"
            return 0.0
        return self._seconds.pop(0)


def test_a_figure_is_the_median_of_rates():
    programs = [
        Program("Anabranch", [4.0, 1.0, 2.0]),
        Program("llama.cpp", [4.0]),
        Program("OpenVINO", [], "absent: not installed"),
    ]
    given = argparse.Namespace(rounds=3, clock="wall")
    own, broken, absent = equal_bits.in_turns(programs, {"rows": 8, "depth": 1}, given)
    assert (own.value, own.low, own.high) == (4.0, 2.0, 8.0)
    assert (broken.value, broken.error) == (0.0, "it broke")
    assert (absent.value, absent.note) == (0.0, "absent: not installed")


@pytest.mark.parametrize("exact", [True, False])
def test_anabranch_makes_as_many_tokens_as_are_timed(exact, monkeypatch):
    monkeypatch.setattr(llm, "load", lambda *_, **__: (llama(), None))
    monkeypatch.setattr(token_engines, "types_of", lambda _: {"F32"})
    monkeypatch.setattr(token_engines, "WORDS", (1, 90))
    monkeypatch.setattr(token_engines, "LENGTH", 64)
    monkeypatch.setattr(token_engines, "TOKENS", 3)
    engine = token_engines.Anabranch("model.gguf", torch.get_num_threads(), exact)
    for work in (
        lambda turns: engine.read(7, turns),
        lambda turns: engine.decode(1, 5, turns),
        lambda turns: engine.decode(3, 5, turns),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO("go\n" * 2))
        answers = Answers()
        work(token_engines.Turns(answers, 2))
        ready, first, again, second = answers.rows()
        assert ready == again == {"ready": True}
        assert first["wall"] > 0 and second["cpu"] > 0
        assert sys.stdin.read() == ""


PROGRAM = """
import sys, json
sys.path.insert(0, {here!r})
from token_engines import Turns
name = sys.argv[1]
if name == "OpenVINO":
    Turns(sys.stdout, 0).tell(absent="not here")
    sys.exit()
print("a library says something")
Turns(sys.stdout, 0).tell(made={{"it": "1"}})
for line in sys.stdin:
    turns = Turns(sys.stdout, json.loads(line)["turns"])
    if name == "llama.cpp":
        turns.tell(error="cannot") if "prompt" in line else sys.exit(1)
    else:
        turns.of(lambda: None, lambda: None)
"""


def test_processes_take_turns_and_one_that_fails_spoils_no_other(tmp_path, monkeypatch):
    script = PROGRAM.format(here=str(BENCHMARK / "language"))
    (tmp_path / "token_engines.py").write_text(script)
    monkeypatch.setattr(equal_bits, "HERE", tmp_path)
    names = ("Anabranch", "llama.cpp", "OpenVINO")
    with (tmp_path / "log").open("w") as log:
        programs = [
            equal_bits.Contender(sys.executable, name, tmp_path / "x", 1, log)
            for name in names
        ]
    assert programs[0].versions == {"it": "1"}
    given = argparse.Namespace(rounds=2, clock="wall")
    for cell, problem in (
        ({"prompt": 4}, "cannot"),
        ({"rows": 1, "depth": 1}, "the process ended"),
        ({"prompt": 4}, "the process ended"),
    ):
        own, broken, absent = equal_bits.in_turns(programs, cell, given)
        assert own.value > 0 and not own.error
        assert broken.error == problem
        assert absent.note == "absent: not here"
    for one in programs:
        one.close()
