"""Small models with random weights equal eager, in f32 and bf16."""

from __future__ import annotations

import pytest
import torch
from small_models import SMALL, tensors, words
from torch import nn

from anabranch.backend import anabranch as backend

transformers = pytest.importorskip("transformers")


def bert():
    config = transformers.BertConfig(**SMALL)
    return transformers.BertModel(config), (words(),)


def gpt2():
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64
    )
    return transformers.GPT2LMHeadModel(config), (words(),)


def llama():
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config), (words(),)


def mixtral():
    config = transformers.MixtralConfig(
        **SMALL, num_key_value_heads=2, num_local_experts=4
    )
    return transformers.MixtralForCausalLM(config), (words(),)


def t5():
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99
    )
    return transformers.T5EncoderModel(config), (words(),)


def vit():
    sizes = {key: SMALL[key] for key in SMALL if key != "vocab_size"}
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4)
    return transformers.ViTModel(config), (torch.randn(2, 3, 16, 16),)


def clip():
    sizes = {key: SMALL[key] for key in SMALL if key != "vocab_size"}
    config = transformers.CLIPVisionConfig(**sizes, image_size=16, patch_size=4)
    return transformers.CLIPVisionModel(config), (torch.randn(2, 3, 16, 16),)


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, groups=2),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    return model, (torch.randn(2, 3, 16, 16),)


def lstm():
    return nn.LSTM(12, 16, num_layers=2, batch_first=True), (torch.randn(2, 5, 12),)


MODELS = [
    bert,
    gpt2,
    llama,
    mixtral,
    t5,
    vit,
    clip,
    convolutional,
    lstm,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_model(make, dtype):
    model, inputs = make()
    model = model.eval().to(dtype)
    inputs = [i.to(dtype) if i.is_floating_point() else i for i in inputs]
    tolerance = {} if dtype is torch.float32 else {"rtol": 5e-2, "atol": 5e-2}
    if dtype is torch.float32:
        tolerance = {"rtol": 1e-3, "atol": 1e-4}
    with torch.no_grad():
        expected = tensors(model(*inputs))
        actual = tensors(torch.compile(model, backend=backend)(*inputs))
    assert len(actual) == len(expected) > 0
    for got, want in zip(actual, expected):
        torch.testing.assert_close(got, want, **tolerance)


def test_decoding_with_a_cache():
    model = llama()[0].eval()
    run = torch.compile(model, backend=backend, dynamic=True)
    prompt = words(5)
    with torch.no_grad():
        results = []
        for call in (model, run):
            cache = transformers.DynamicCache()
            ids, seen = prompt, []
            for _ in range(4):
                logits = call(ids, past_key_values=cache, use_cache=True).logits
                ids = logits[:, -1:].argmax(-1)
                seen.append(logits[:, -1])
            results.append(torch.stack(seen))
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
