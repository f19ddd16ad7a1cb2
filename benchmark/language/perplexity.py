"""How much a language model's weights in few bits cost: perplexity on a text.

perplexity.py                 SmolLM2, or the model that --model names
perplexity.py --text FILE     another text
perplexity.py int8 int4-text  these ways alone, beside f32
perplexity.py --divergence    how far the next words are from those of f32, too

The text is the first four chapters of Lewis Carroll's "Alice's Adventures in Wonderland"
(1865, public domain) in the Millennium Fulcrum edition, line by line as in alice29.txt of
the Canterbury corpus. Paragraphs become lines. The text is cut into windows; each token
of a window but the first counts. A way's column "more" says by how much its perplexity
exceeds that of f32.

A way is the kind of the integers, and what they round:

int4             the weights as they are. SmolLM2's file has Q4_1: its weights are multiples
                 of a scale for each 32 columns, which int4 would find again
int4-shuffled    the same function whose channels have a random order, so each group has
                 columns of other groups
int4-rescaled    that one with random sizes of channels, and the weights of norms in the
                 layers after them, so that columns of a group differ as much as they may
int4-...-text    calibrated on another text: the first six chapters of Jane Austen's "Pride
                 and Prejudice" (1813, public domain)
...-a8           layers of few bits round what they multiply to bytes, with a scale for
                 each row and group of columns (activations="int8")
kv-int8          the floats of f32, over a cache of keys and values in bytes
kv-fp8_e4m3, kv-fp8_e5m2  the same, over a cache of floats of eight bits
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from anabranch.llm.kept_states import KINDS, read, to_bytes
from anabranch.llm.quantized_layers import QuantizedLinear

TEXT = Path(__file__).parent / "texts" / "alice.txt"
CALIBRATION = TEXT.with_name("pride.txt")
WINDOW = 512
# More than f32's perplexity, at most.
GOALS = {
    "kv-int8": 0.005,
    "int8": 0.005,
    "int4": 0.03,
    "packed-a8": 0.005,
    "int8-a8": 0.01,
    "int4-a8": 0.04,
}


def ways(model: str) -> dict[str, Callable[[], Any]]:
    """Each makes the model another way. f32 of a GGUF file are its floats."""
    from anabranch import llm

    def floats(dtype: torch.dtype) -> Any:
        return llm.load(model, dtype=dtype, packed=False)[0]

    forms: dict[str, Callable[[Any], Any]] = {
        "": lambda given: given,
        "-shuffled": shuffled,
        "-rescaled": lambda given: rescaled(shuffled(given)),
    }
    found = {
        "f32": lambda: floats(torch.float32),
        "bf16": lambda: floats(torch.bfloat16),
        "packed": lambda: llm.load(model)[0],
    }
    for kind in KINDS:
        found["kv-" + kind] = functools.partial(
            lambda kept: OverBytes(floats(torch.float32), kept), kind
        )
    for form, change in forms.items():
        plain = functools.partial(lambda f: f(floats(torch.float32)), change)
        if form:
            found["f32" + form] = plain
        for kind in ("int8", "int4", "int4-text"):
            bits, *text = kind.split("-")
            name = "-".join([bits + form, *text])
            found[name] = functools.partial(few_bits, model, plain, bits, bool(text))
    for name in ("packed", "int8", "int4"):
        found[name + "-a8"] = functools.partial(reading_bytes, found[name])
    return found


def reading_bytes(make: Callable[[], Any]) -> Any:
    """A model whose quantised layers round what they multiply."""

    def rounded(count: int, _: Any, inputs: Any) -> torch.Tensor:
        groups = to_bytes(inputs[0].unflatten(-1, (count, -1)), torch.int8)
        return read(groups, inputs[0].dtype, lambda part: part).flatten(-2)

    model = make()
    groups = {
        name: layer.scale.shape[1]
        for name, layer in model.named_modules()
        if isinstance(layer, QuantizedLinear)
    }
    model = in_floats(model)
    for name, count in groups.items():
        layer = model.get_submodule(name)
        layer.register_forward_pre_hook(functools.partial(rounded, count))
    return model


class OverBytes(torch.nn.Module):
    """A model that reads the keys and values of a window from numbers of eight bits."""

    def __init__(self, model: Any, kind: str) -> None:
        super().__init__()
        from anabranch.llm.key_values import KeyValues

        self.model = model
        self._key_values = KeyValues(model, WINDOW, KINDS[kind])

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.model(tokens, past_key_values=self._key_values.make(1))


def few_bits(name: str, make: Callable[[], Any], bits: str, calibrate: bool) -> Any:
    from anabranch.llm.quantize import quantized

    return quantized(make(), bits, tokens_of(CALIBRATION, name) if calibrate else None)


def tokens_of(text: Path, model: str) -> torch.Tensor:
    """The tokens of a text, whose paragraphs become lines."""
    from anabranch.llm import checkpoint, model_files

    tokenizer = checkpoint.load_tokenizer(model_files.find(model))
    paragraphs = re.split(r"\n\s*\n", text.read_text())
    lines = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return tokenizer(lines, return_tensors="pt").input_ids[0]


@torch.no_grad()
def shuffled(model: Any) -> Any:
    """The same function with other groups of columns: the channels of the residual
    stream, of each hidden layer and of each head's values have a random order. For
    models of Llama's kind; changes the model."""
    generator = torch.Generator().manual_seed(0)
    order = functools.partial(torch.randperm, generator=generator)
    inner, head = model.model, model.model.layers[0].self_attn.head_dim
    stream = order(model.config.hidden_size)
    norms = [inner.norm]
    # Tied embeddings share their tensor with the layer of the logits.
    readers = [inner.embed_tokens]
    if model.lm_head.weight is not inner.embed_tokens.weight:
        readers.append(model.lm_head)
    for layer in inner.layers:
        attention, mlp = layer.self_attn, layer.mlp
        norms += [layer.input_layernorm, layer.post_attention_layernorm]
        readers += [attention.q_proj, attention.k_proj, attention.v_proj]
        readers += [mlp.gate_proj, mlp.up_proj]
        for writer in (attention.o_proj, mlp.down_proj):
            writer.weight.copy_(writer.weight[stream])
        hidden = order(mlp.down_proj.weight.shape[1])
        for up in (mlp.gate_proj, mlp.up_proj):
            up.weight.copy_(up.weight[hidden])
        mlp.down_proj.weight.copy_(mlp.down_proj.weight[:, hidden])
        values = order(head)  # the same for all heads, which share keys and values
        rows = attention.v_proj.weight.unflatten(0, (-1, head))
        rows.copy_(rows[:, values])
        columns = attention.o_proj.weight.unflatten(1, (-1, head))
        columns.copy_(columns[:, :, values])
    for norm in norms:
        norm.weight.copy_(norm.weight[stream])
    for reader in readers:
        reader.weight.copy_(reader.weight[:, stream])
    return model


@torch.no_grad()
def rescaled(model: Any) -> Any:
    """The same function with channels of other sizes: those of the values and of each
    hidden layer have random ones, and layers have the weights of the norms before them.
    For models of Llama's kind; changes the model."""
    generator = torch.Generator().manual_seed(1)

    def sizes(count: int) -> torch.Tensor:
        return 2 ** (2 * torch.rand(count, generator=generator) - 1)

    def fold(norm: Any, *readers: Any) -> None:
        for reader in readers:
            reader.weight.copy_(reader.weight * norm.weight)
        norm.weight.fill_(1)

    inner, head = model.model, model.model.layers[0].self_attn.head_dim
    # The embeddings keep their values.
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    fold(inner.norm, model.lm_head)
    for layer in inner.layers:
        attention, mlp = layer.self_attn, layer.mlp
        fold(
            layer.input_layernorm, attention.q_proj, attention.k_proj, attention.v_proj
        )
        fold(layer.post_attention_layernorm, mlp.gate_proj, mlp.up_proj)
        hidden = sizes(mlp.up_proj.weight.shape[0])
        mlp.up_proj.weight.mul_(hidden.unsqueeze(1))
        mlp.down_proj.weight.div_(hidden)
        values = sizes(attention.v_proj.weight.shape[0])
        attention.v_proj.weight.mul_(values.unsqueeze(1))
        # Several heads read the values of one.
        shared = attention.o_proj.weight.shape[1] // len(values)
        read = values.view(-1, 1, head).expand(-1, shared, -1).flatten()
        attention.o_proj.weight.div_(read)
    return model


def in_floats(model: torch.nn.Module) -> torch.nn.Module:
    """The model with its quantised layers as layers of floats of the same values: PyTorch
    would make these floats anew for each window."""
    for name, child in model.named_children():
        if isinstance(child, QuantizedLinear):
            weight = child.dequantized()
            layer = torch.nn.Linear(*weight.shape[::-1], bias=child.bias is not None)
            layer.weight = torch.nn.Parameter(weight)
            layer.bias = child.bias
            setattr(model, name, layer)
        else:
            in_floats(child)
    return model


@torch.no_grad()
def perplexity(
    model: Any, tokens: torch.Tensor, exact: Any = None
) -> tuple[float, float]:
    """exp of the mean negative log likelihood of the tokens, windows one by one, and the
    mean divergence of the next words from those of the model `exact`, in nats."""
    loss, divergence, count = 0.0, 0.0, 0
    for window in tokens.split(WINDOW):
        if len(window) < 2:
            continue
        said = _words(model, window)
        loss -= said.gather(1, window[1:].unsqueeze(1)).sum().item()
        count += len(said)
        if exact is not None:
            divergence += torch.nn.functional.kl_div(
                said, _words(exact, window), reduction="sum", log_target=True
            ).item()
    return math.exp(loss / count), divergence / count


def _words(model: Any, window: torch.Tensor) -> torch.Tensor:
    """The log probabilities of the words after each token but the last one."""
    return model(window.unsqueeze(0)).logits[0, :-1].float().log_softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--model", default="SmolLM2")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--tokens", type=int, metavar="N", help="the first N alone")
    parser.add_argument(
        "--divergence",
        action="store_true",
        help="how far the next words are from those of f32, too: noise of a short text"
        " moves it less than the perplexity",
    )
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    known = ways(given.model)
    asked = given.ways or [*known]
    if not set(asked) <= set(known):
        parser.error(f"ways are {', '.join(known)}")
    tokens = tokens_of(given.text, given.model)[: given.tokens]
    print(f"{given.model}, {given.text.name}: {len(tokens)} tokens")
    floats: Any = known["f32"]()
    exact, _ = perplexity(floats, tokens)
    if not given.divergence:
        floats = None
    print(f"{'f32':19} {exact:8.4f}")
    for name in asked:
        if name == "f32":
            continue
        found, nats = perplexity(in_floats(known[name]()), tokens, floats)
        more = found / exact - 1
        goal = GOALS.get(name, GOALS.get(name.split("-")[0]))
        text = "" if goal is None else f"  (goal {goal:.1%})"
        if given.divergence:
            text += f"  divergence {nats:.5f}"
        print(f"{name:19} {found:8.4f}  more {more:+.2%}{text}", flush=True)


if __name__ == "__main__":
    main()
