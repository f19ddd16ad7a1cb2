"""How much a language model's weights in few bits cost: perplexity on a text.

perplexity.py                 SmolLM2, or the model that --model names
perplexity.py --text FILE     another text
perplexity.py int8 int4       these ways alone, beside f32

The text is the beginning of Lewis Carroll's "Alice's Adventures in Wonderland" (1865,
public domain), without its heading. It was typed from memory: no edition was compared.
It is cut into windows; each token of a window but the first counts. A way's column
"more" says by how much its perplexity exceeds that of f32.

SmolLM2's file has weights of Q4_1, which int4 finds again, as both have a scale and an
offset for each 32 columns. What int4 costs shows with a model of floats alone.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

TEXT = Path(__file__).parent / "texts" / "alice.txt"
WINDOW = 512
# More than f32's perplexity, at most.
GOALS = {"int8": 0.005, "int4": 0.03}


def ways(model: str) -> dict[str, Callable[[], Any]]:
    """Each makes the model another way. f32 of a GGUF file are its floats."""
    from anabranch import llm
    from anabranch.llm.quantize import quantized

    def floats(dtype: torch.dtype) -> Any:
        return llm.load(model, dtype=dtype, packed=False)[0]

    return {
        "f32": lambda: floats(torch.float32),
        "bf16": lambda: floats(torch.bfloat16),
        "int8": lambda: quantized(floats(torch.float32), "int8"),
        "int4": lambda: quantized(floats(torch.float32), "int4"),
        "packed": lambda: llm.load(model)[0],
    }


@torch.no_grad()
def perplexity(model: Any, tokens: torch.Tensor) -> float:
    """exp of the mean negative log likelihood of the tokens, windows one by one."""
    total, count = 0.0, 0
    for window in tokens.split(WINDOW):
        if len(window) < 2:
            continue
        logits = model(window.unsqueeze(0)).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum")
        total, count = total + loss.item(), count + len(window) - 1
    return math.exp(total / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--model", default="SmolLM2")
    parser.add_argument("--text", type=Path, default=TEXT)
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from anabranch.llm import checkpoint, model_files

    known = ways(given.model)
    asked = given.ways or [*known]
    if not set(asked) <= set(known):
        parser.error(f"ways are {', '.join(known)}")
    tokenizer = checkpoint.load_tokenizer(model_files.find(given.model))
    tokens = tokenizer(given.text.read_text(), return_tensors="pt").input_ids[0]
    print(f"{given.model}, {given.text.name}: {len(tokens)} tokens")
    exact = perplexity(known["f32"](), tokens)
    print(f"{'f32':8} {exact:8.4f}")
    for name in asked:
        if name == "f32":
            continue
        found = perplexity(known[name](), tokens)
        more = found / exact - 1
        goal = f"  (goal {GOALS[name]:.1%})" if name in GOALS else ""
        print(f"{name:8} {found:8.4f}  more {more:+.2%}{goal}", flush=True)


if __name__ == "__main__":
    main()
