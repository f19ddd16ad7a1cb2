"""Heads of EAGLE-3 with random weights, and what such a head computes."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

WIDTH, WORDS, DRAFT_WORDS = 32, 99, 40


def config(**changes) -> dict:
    return {
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": WORDS,
        "draft_vocab_size": DRAFT_WORDS,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
    } | changes


def target(layers: int = 6):
    """A model that has the states which heads read."""
    made = transformers.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=WORDS,
        max_position_embeddings=512,
        initializer_range=0.4,
    )
    return transformers.LlamaForCausalLM(made).eval()


def state(scale: float = 0.3) -> dict[str, Tensor]:
    """Tensors of a checkpoint, with the published names."""
    keys = WIDTH // 4 * 2
    shapes = {
        "fc.weight": (WIDTH, 3 * WIDTH),
        "midlayer.self_attn.q_proj.weight": (WIDTH, 2 * WIDTH),
        "midlayer.self_attn.k_proj.weight": (keys, 2 * WIDTH),
        "midlayer.self_attn.v_proj.weight": (keys, 2 * WIDTH),
        "midlayer.self_attn.o_proj.weight": (WIDTH, WIDTH),
        "midlayer.mlp.gate_proj.weight": (48, WIDTH),
        "midlayer.mlp.up_proj.weight": (48, WIDTH),
        "midlayer.mlp.down_proj.weight": (WIDTH, 48),
        "lm_head.weight": (DRAFT_WORDS, WIDTH),
    }
    found = {name: torch.randn(shape) * scale for name, shape in shapes.items()}
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        found[f"midlayer.{name}.weight"] = torch.rand(WIDTH) + 0.5
    found["norm.weight"] = torch.rand(WIDTH) + 0.5
    tokens = torch.randperm(WORDS)[:DRAFT_WORDS].sort().values
    found["d2t"] = tokens - torch.arange(DRAFT_WORDS)
    found["t2d"] = torch.zeros(WORDS, dtype=torch.bool).index_fill_(0, tokens, True)
    return found


class Reference:
    """A head in float64, which computes all rows again for each guess."""

    def __init__(self, state: dict[str, Tensor], embedding: Tensor, eps=1e-6) -> None:
        self._of = {
            name: tensor.double() if tensor.is_floating_point() else tensor
            for name, tensor in state.items()
        }
        self._embedding, self._eps = embedding.double(), eps

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = (x.pow(2).mean(-1, keepdim=True) + self._eps).rsqrt()
        return x * scale * self._of[name]

    def _turned(self, x: Tensor) -> Tensor:
        """Rotary positions of [heads, rows, size]."""
        rows, size = x.shape[1:]
        rates = 10000.0 ** -(torch.arange(0, size, 2).double() / size)
        angles = torch.arange(rows).double()[:, None] * rates
        a, b = x.chunk(2, -1)
        c, s = angles.cos(), angles.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def _layer(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        both = torch.cat(
            [
                self._norm(self._embedding[tokens], "midlayer.input_layernorm.weight"),
                self._norm(hidden, "midlayer.hidden_norm.weight"),
            ],
            -1,
        )

        def heads(name: str) -> Tensor:
            found = both @ self._of[f"midlayer.self_attn.{name}.weight"].T
            return found.unflatten(-1, (-1, WIDTH // 4)).transpose(0, 1)

        q, k, v = heads("q_proj"), heads("k_proj"), heads("v_proj")
        k, v = (x.repeat_interleave(2, 0) for x in (self._turned(k), v))
        seen = scaled_dot_product_attention(self._turned(q), k, v, is_causal=True)
        seen = seen.transpose(0, 1).flatten(1)
        hidden = hidden + seen @ self._of["midlayer.self_attn.o_proj.weight"].T
        x = self._norm(hidden, "midlayer.post_attention_layernorm.weight")
        gate = silu(x @ self._of["midlayer.mlp.gate_proj.weight"].T)
        up = x @ self._of["midlayer.mlp.up_proj.weight"].T
        return hidden + (gate * up) @ self._of["midlayer.mlp.down_proj.weight"].T

    def guesses(self, tokens: list[int], features: Tensor, count: int) -> list[int]:
        """What follows `tokens`, each of which stands beside a row of features."""
        known, found = list(tokens), []
        hidden = features.double() @ self._of["fc.weight"].T
        for _ in range(count):
            last = self._layer(torch.tensor(known), hidden)[-1:]
            logits = self._norm(last, "norm.weight") @ self._of["lm_head.weight"].T
            word = int(logits.argmax())
            found.append(word + int(self._of["d2t"][word]))
            known.append(found[-1])
            hidden = torch.cat([hidden, last])
        return found
