"""Parameters that move into a mapped file keep identity, values and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from decoders import PLAIN, llama, prompt
from torch import nn

import anabranch
from anabranch import llm
from anabranch.parameter_file import ParameterFile, move


def is_in_a_file(tensor: torch.Tensor) -> bool:
    address = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, *rest = line.split(None, 5)
        begin, end = (int(part, 16) for part in place.split("-"))
        if begin <= address < end:
            return len(rest) == 5 and rest[4].endswith("(deleted)")
    raise AssertionError("the tensor is nowhere")


def state(model):
    return [*model.parameters(), *model.buffers()]


def test_tensors_keep_what_they_are(tmp_path):
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)).to(torch.bfloat16)
    model[1].weight = model[0].weight
    model.register_buffer("steps", torch.arange(100.0)[5:50:3])
    model.register_buffer("odd", torch.arange(7, dtype=torch.int8))
    model.register_buffer("none", torch.empty(0))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    strides = {name: value.stride() for name, value in model.state_dict().items()}
    file = ParameterFile(state(model), str(tmp_path))
    for _ in range(2):
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name])
            assert value.stride() == strides[name]
            assert not value.numel() or is_in_a_file(value)
        file.drop_pages()
    assert model[0].weight.data_ptr() == model[1].weight.data_ptr()
    assert isinstance(model[0].weight, nn.Parameter)
    # The file has no name. Its pages keep what is written to them.
    assert not list(tmp_path.iterdir())
    with torch.no_grad():
        model[0].weight.fill_(3)
    file.drop_pages()
    assert bool((model[1].weight == 3).all())


def test_a_model_without_tensors(tmp_path):
    ParameterFile([], str(tmp_path)).drop_pages()


def test_memory_that_others_view_stays(tmp_path):
    model = nn.Linear(4, 4)
    view = model.weight.detach()[1:3]
    tensors = list(model.parameters())
    assert move(tensors, str(tmp_path)) == model.bias.nbytes
    assert is_in_a_file(model.bias) and not is_in_a_file(model.weight)
    with torch.no_grad():
        model.weight.fill_(3)
    assert bool((view == 3).all())
    del view
    assert move([*tensors, *tensors], str(tmp_path)) > model.weight.nbytes
    assert is_in_a_file(model.weight)


class Loaded(nn.Parameter):
    """A parameter that knows how it is loaded."""


def test_parameters_of_other_classes_move(tmp_path):
    weight = Loaded(torch.randn(4, 4))
    lazy, absent = (
        nn.UninitializedParameter(),
        nn.Parameter(torch.empty(2, device="meta")),
    )
    assert move([weight, lazy, absent], str(tmp_path)) == weight.nbytes
    assert is_in_a_file(weight)
    assert type(weight) is Loaded


def test_frozen_weights_move(tmp_path):
    """Writes to a moved weight are seen, and so are those to one that is tied to it."""
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    model[2].weight = model[0].weight
    how = {"freeze": "move"}
    compiled = torch.compile(model, backend=anabranch.anabranch, options=how)
    x = torch.randn(3, 32)
    with torch.no_grad():
        for _ in range(3):
            expected = model(x)
            torch.testing.assert_close(compiled(x), expected)
            assert all(map(is_in_a_file, model.parameters()))
            torch.testing.assert_close(model(x), expected)
            model[2].weight.mul_(1.25)
            model[0].bias.add_(1)


class Cached(nn.Module):
    def __init__(self, folder):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(32, 32)
        config = anabranch.Config(freeze="move")
        self.call = anabranch.cache_compile(
            self.method, cache_dir=str(folder), config=config
        )

    def method(self, x):
        return torch.relu(self.layer(x))


def test_frozen_weights_of_a_cached_method_move(tmp_path):
    x = torch.randn(3, 32)
    for _ in range(2):  # compiled, then replayed
        model = Cached(tmp_path)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(model.call(x), model.method(x))
                assert all(map(is_in_a_file, model.parameters()))
                model.layer.weight.mul_(1.25)
        torch._dynamo.reset()


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_model_that_was_taken_over_generates(quantize, tmp_path):
    model, tokens = llama(), prompt(1, 5)
    wanted = llm.compile(model, max_length=24, quantize=quantize)
    expected = wanted.generate(tokens, max_new_tokens=6, **PLAIN)
    plain = model.generate(tokens, max_new_tokens=6, **PLAIN)
    compiled = llm.compile(
        model, max_length=24, quantize=quantize, take_over=True, cache_dir=tmp_path
    )
    assert all(is_in_a_file(parameter) for parameter in model.parameters())
    found = compiled.generate(tokens, max_new_tokens=6, **PLAIN)
    assert torch.equal(found, expected)
    assert torch.equal(model.generate(tokens, max_new_tokens=6, **PLAIN), plain)


def test_take_over_is_a_bool():
    with pytest.raises(TypeError, match="take_over must be True or False"):
        llm.compile(llama(), take_over="yes")
