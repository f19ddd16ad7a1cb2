"""Weights of a GGUF file keep its integers, and have the values that `gguf` reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from decoders import PLAIN, prompt
from gguf_files import RANDOM, TYPES, LlamaFile, random_blocks

from anabranch import llm
from anabranch.llm import gguf_blocks, gguf_model
from anabranch.llm.gguf_reading import parsed_once
from anabranch.llm.quantized_layers import (
    QuantizedEmbedding,
    QuantizedLayer,
    QuantizedWeight,
)


def blocks(kind: str, rows: int, columns: int) -> np.ndarray:
    if kind in RANDOM:
        return random_blocks(kind, rows, columns)
    values = np.random.default_rng(1).normal(0, 1, (rows, columns)).astype(np.float32)
    values[0, :32] = 0
    return gguf.quantize(values, gguf.GGMLQuantizationType[kind])


def floats(path, dtype=torch.float32):
    """The model as transformers loads it, with floats."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=dtype
    ).eval()


@pytest.mark.parametrize("kind", TYPES)
def test_blocks_equal_the_package_s_floats(kind, monkeypatch):
    monkeypatch.setattr(gguf_blocks, "CHUNK", 1024)  # a prompt of several chunks
    data = blocks(kind, 7, 768)
    expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
    found = gguf_blocks.unpack(torch.from_numpy(data), kind)
    assert torch.equal(found.dequantized(), torch.from_numpy(expected))
    few = kind in ("Q4_0", "Q4_1", "Q2_K", "Q3_K", "Q4_K")
    assert found.integers.dtype == (torch.uint8 if few else torch.int8)
    # The scales of other types are products of two numbers.
    is_half = kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
    assert found.scale.dtype == (torch.float16 if is_half else torch.float32)


def test_other_types_are_not_packed():
    for kind in ("F32", "F16", "BF16", "IQ4_NL", "MXFP4"):
        assert not gguf_blocks.is_packed(kind)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_is_what_transformers_loads(tied, tmp_path):
    path = tmp_path / "model.gguf"
    LlamaFile(path, types=TYPES, tied=tied)
    model, expected = gguf_model.load(path, torch.float32), floats(path)
    known = expected.state_dict()
    layers = {n: m for n, m in model.named_modules() if isinstance(m, QuantizedLayer)}
    assert len(layers) == 7 * 2 + 2
    for name, layer in layers.items():
        assert torch.equal(layer.dequantized(), known[f"{name}.weight"]), name
    for name, value in model.named_parameters():
        assert torch.equal(value, known[name]), name
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert (head.weight is embedding.weight) == tied
    tokens = prompt(2, 5)
    with torch.no_grad():
        found = model(tokens).logits
        torch.testing.assert_close(found, expected(tokens).logits)


def test_rows_of_query_and_key_are_in_the_order_of_transformers(tmp_path):
    path = tmp_path / "model.gguf"
    written = LlamaFile(path, types=("Q8_0",))
    model = gguf_model.load(path, torch.float32)
    for name, value in written.weights.items():
        found = model.get_submodule(name.removesuffix(".weight")).dequantized()
        torch.testing.assert_close(found, torch.tensor(value), atol=2e-3, rtol=0)


def first_logits(model, tokens):
    """The logits of the first new token, as generate() computes them."""
    arguments = PLAIN | {"max_new_tokens": 2}
    made = model.generate(
        tokens, **arguments, output_logits=True, return_dict_in_generate=True
    )
    return made.logits[0]


def assert_as_exact(compiled, eager, reference, prompts):
    """Compares the compiled model's and eager's distances from the reference's logits.
    It compares medians, because roundings decide the logits of some prompts.
    Returns both distances for each prompt."""
    errors = []
    for tokens in prompts:
        expected = first_logits(reference, tokens).double()
        found = [first_logits(model, tokens).double() for model in (compiled, eager)]
        errors.append([(logits - expected).norm() for logits in found])
    ours, eagers = torch.tensor(errors).median(0).values
    assert ours <= 2 * eagers
    return errors


def test_tokens_equal_those_of_the_floats(tmp_path):
    path = tmp_path / "model.gguf"
    LlamaFile(path, types=TYPES)
    model, exact = gguf_model.load(path, torch.float32), floats(path)
    compiled = llm.compile(model, max_length=40, dump=str(tmp_path / "dump"))
    arguments = PLAIN | {"max_new_tokens": 10}
    for length in (18, 5):
        tokens = prompt(1, length)
        expected = exact.generate(tokens, **arguments)
        assert torch.equal(compiled.generate(tokens, **arguments), expected)
    prompts = [prompt(1, length) for length in (18, 5) * 4]
    errors = assert_as_exact(compiled, exact, floats(path, torch.float64), prompts)
    # The median hides a single bad prompt, so each prompt has a wide bound too.
    assert max(ours for ours, _ in errors) < 1e-3
    texts = [path.read_text() for path in tmp_path.rglob("*fuse.mlir")]
    assert texts
    # Seven products in each of two layers, and the logits.
    assert all(text.count("anabranch.quantized_weight") >= 15 for text in texts)


def test_logits_in_bf16_are_as_exact_as_those_of_floats(tmp_path):
    path = tmp_path / "model.gguf"
    LlamaFile(path, types=TYPES)
    exact, eager = floats(path), floats(path, torch.bfloat16)
    model = gguf_model.load(path, torch.bfloat16)
    compiled = llm.compile(model, max_length=32)
    prompts = [prompt(1, 18) for _ in range(5)]
    for tokens in prompts:
        assert torch.equal(first_logits(model, tokens), first_logits(eager, tokens))
    assert_as_exact(compiled, eager, exact, prompts)


@pytest.mark.parametrize("bits", [4, 8])
def test_an_embedding_makes_floats_of_the_rows_asked_for(bits):
    whole = torch.randint(0, 256, (9, 32 if bits == 4 else 64), dtype=torch.uint8)
    integers = whole if bits == 4 else whole.view(torch.int8)
    weight = QuantizedWeight(integers, torch.rand(9, 2), torch.rand(9, 2), 3)
    layer = QuantizedEmbedding(weight, torch.bfloat16)
    tokens = torch.tensor([[8, 0, 3], [3, 3, 1]])
    assert torch.equal(layer(tokens), layer.dequantized().bfloat16()[tokens])


def test_fields_that_are_read_once_are_the_same(tmp_path):
    from transformers import modeling_gguf_pytorch_utils as reading

    path = tmp_path / "model.gguf"
    LlamaFile(path, types=("Q8_0",))
    expected = reading.load_gguf_checkpoint(str(path))
    load, reader = reading.load_gguf_checkpoint, gguf.GGUFReader
    with parsed_once():
        first = reading.load_gguf_checkpoint(str(path))
        assert first == expected
        first["config"].clear()  # a copy that is the caller's own
        assert reading.load_gguf_checkpoint(str(path)) == expected
        assert gguf.GGUFReader(str(path)) is gguf.GGUFReader(str(path))
    assert reading.load_gguf_checkpoint is load
    assert gguf.GGUFReader is reader


def test_refusals(tmp_path):
    path = tmp_path / "model.gguf"
    LlamaFile(path, types=("I8",))
    with pytest.raises(ValueError, match="token_embd.weight .* has the type I8"):
        gguf_model.load(path, torch.float32)
    LlamaFile(path, types=("Q8_0",))
    model = gguf_model.load(path, torch.float32)
    with pytest.raises(ValueError, match="8 linear layers .* have few bits already"):
        llm.compile(model, quantize="int4", max_length=16)


def test_a_missing_tensor_is_named(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    matrix = LlamaFile._matrix
    monkeypatch.setattr(
        LlamaFile,
        "_matrix",
        lambda self, name, *rest: "ffn_up" in name or matrix(self, name, *rest),
    )
    LlamaFile(path, types=("Q8_0",))
    with pytest.raises(ValueError, match="no tensor for .*up_proj.weight"):
        gguf_model.load(path, torch.float32)
