"""Small decoders with random weights, and prompts for them."""

from __future__ import annotations

import torch
import transformers
from small_models import SMALL

# The weights are large: with small ones, the tokens of a model hardly depend on its
# input.
SPREAD = SMALL | {"initializer_range": 0.5}
PLAIN = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def llama():
    config = transformers.LlamaConfig(**SPREAD, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config).eval()


def gpt2():
    """A GPT-2, whose linear layers are transposed."""
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=99,
        n_positions=64,
        initializer_range=0.5,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def prompt(rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, 99, (rows, length))
