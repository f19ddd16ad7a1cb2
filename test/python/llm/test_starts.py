"""A first start is short: a trace handles equal weights once, the fields of a GGUF file
are parsed at once, and the garbage collector rests."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from decoders import PLAIN, llama, prompt
from torch import nn

pytest.importorskip("transformers")
import anabranch
from anabranch import collector, llm
from anabranch.capture import handmade
from anabranch.capture.kept_whole import PARTS, dequantized
from anabranch.llm.gguf_reading import parsed_once
from anabranch.llm.quantize import quantized
from anabranch.llm.quantized_layers import QuantizedWeight
from anabranch.method_cache import cached_method

WIDE, NARROW = (64, 64), (32, 64)


class Tower(nn.Module):
    """A tower of layers whose weights have two shapes."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*WIDE) for _ in range(depth))
        self.last = nn.Linear(NARROW[1], NARROW[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.last(x)


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_weights_of_one_shape_are_traced_once(kind, dynamic, monkeypatch):
    model, traced = quantized(Tower(4).eval(), kind), []
    trace = handmade.Completion.trace
    monkeypatch.setattr(
        handmade.Completion,
        "trace",
        lambda self, node, *rest: traced.append(node) or trace(self, node, *rest),
    )
    compiled = anabranch.compile(model, dynamic=dynamic, freeze=True, cache=False)
    x = torch.randn(3, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
    assert [node.target for node in traced] == [dequantized] * 2


def test_a_kept_operator_is_what_its_parts_compute():
    integers = torch.randint(0, 256, (5, 32), dtype=torch.uint8)
    for offset in (None, torch.randn(5, 2)):
        given = (integers, torch.rand(5, 2), offset, 3, torch.bfloat16)
        expected = PARTS[dequantized](*given)
        assert torch.equal(dequantized(*given), expected)
        with torch._subclasses.FakeTensorMode() as mode:
            fake = [mode.from_tensor(v) if torch.is_tensor(v) else v for v in given]
            found = dequantized(*fake)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        assert found.stride() == expected.stride()


def test_gradients_pass_through_a_quantised_layer():
    weight = QuantizedWeight(
        torch.randint(-9, 9, (4, 8)).to(torch.int8), torch.rand(4, 2)
    )
    x = torch.randn(3, 8, requires_grad=True)
    nn.functional.linear(x, weight.dequantized()).sum().backward()
    torch.testing.assert_close(x.grad, weight.dequantized().sum(0).expand(3, 8))


def test_fields_are_those_of_the_gguf_package(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_array("a.texts", ["", "one", "zwölf", "x" * 300])
    writer.add_array("a.whole", [1, -2, 3])
    writer.add_array("a.scores", [0.5, -1.25])
    writer.add_array("a.truths", [True, False, True])
    writer.add_string("a.name", "ñ")
    writer.add_tensor("t", np.ones((2, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = gguf.GGUFReader(str(path))
    with parsed_once():
        found = gguf.GGUFReader(str(path))
    assert list(found.fields) == list(expected.fields)
    for name, field in expected.fields.items():
        assert found.fields[name].contents() == field.contents(), name
        assert found.fields[name].types == field.types, name
    assert np.array_equal(found.tensors[0].data, expected.tensors[0].data)


def test_a_file_that_ends_inside_of_a_string_is_refused(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_array("a.texts", ["one", "two" * 40])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    path.write_bytes(path.read_bytes()[:-60])
    with parsed_once(), pytest.raises(ValueError, match="ends inside"):
        gguf.GGUFReader(str(path))


def test_the_collector_rests_and_goes_on():
    assert gc.isenabled()
    with collector.at_rest():
        with collector.at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector.at_rest():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_rests_until_the_last_of_two_threads_is_done():
    inside, leave = threading.Event(), threading.Event()

    def rest() -> None:
        with collector.at_rest():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=rest)
    with collector.at_rest():
        thread.start()
        inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_start_imports_no_dynamo():
    """A start imports Dynamo only if transformers does."""
    text = (
        "import sys, anabranch.llm; assert anabranch.llm.load;"
        "assert 'torch._dynamo' not in sys.modules;"
        "from anabranch.llm.exporting import export;"
        "assert anabranch.llm.export is export"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize("batch", [False, True])
def test_a_process_that_compiled_steps_replays_them(batch, monkeypatch, tmp_path):
    """Dynamo's guards run in the first call of a step and in no later one."""

    def refusing(_):
        def run(*_, **__):
            raise AssertionError("a later call of a step goes through Dynamo")

        return run

    monkeypatch.delenv("ANABRANCH_CACHE")
    monkeypatch.setenv("ANABRANCH_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cached_method, "without_module", refusing)
    model, tokens = llama(), prompt(1, 18)
    compiled = llm.compile(model, max_length=40)
    for length in (5, 12):
        arguments = PLAIN | {"max_new_tokens": length}
        expected = model.generate(tokens, **arguments)
        if batch:
            (found,) = compiled.generate_batch([tokens[0]], max_new_tokens=length)
            assert torch.equal(found, expected[0])
        else:
            assert torch.equal(compiled.generate(tokens, **arguments), expected)
    # Steps were compiled once, and no start from the cache counts as another one.
    assert anabranch.counters.graphs == 2
