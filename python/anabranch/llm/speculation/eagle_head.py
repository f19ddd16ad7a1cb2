"""The head of EAGLE-3: one decoder layer that guesses tokens from what the model that
answers thought of the earlier ones.

    features [3 x width] ─► fc ─┐
                                ├─► layer ─► state ─► norm ─► lm_head ─► word
    the next token ─► embedding ┘              │
                 a guess goes on from the state in the place of features
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

from ..kept_states import Kept
from ..key_values import LayerShape, StateLayer


class HeadLayer(nn.Module):
    """A layer of Llama whose queries, keys and values read two vectors side by side: the
    embedding of a token, and the state at the token before it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = LlamaAttention(config, layer_idx=0)
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(self.self_attn, name)
            has_bias = narrow.bias is not None
            wide = nn.Linear(2 * width, narrow.out_features, bias=has_bias)
            setattr(self.self_attn, name, wide)
        self.mlp = LlamaMLP(config)
        eps = config.rms_norm_eps
        self.input_layernorm = LlamaRMSNorm(width, eps)
        self.hidden_norm = LlamaRMSNorm(width, eps)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps)
        self._adds_norm = bool(getattr(config, "norm_before_residual", False))

    def forward(self, embedded: Tensor, state: Tensor, **attention: Any) -> Tensor:
        normed = self.hidden_norm(state)
        both = torch.cat([self.input_layernorm(embedded), normed], -1)
        seen, _ = self.self_attn(both, **attention)
        state = (normed if self._adds_norm else state) + seen
        return state + self.mlp(self.post_attention_layernorm(state))


class Eagle3Head(nn.Module):
    """The modules have the names of published checkpoints."""

    d2t: Tensor

    embed_tokens: nn.Module

    def __init__(self, config: Any, width: int, embeds: bool) -> None:
        """
        width   of one of the three states that features have side by side
        embeds  whether the head has an embedding of its own; if not, its maker gives it
                that of the model that answers
        """
        super().__init__()
        words, own = config.draft_vocab_size, config.hidden_size
        self.fc = nn.Linear(3 * width, own, bias=bool(getattr(config, "bias", False)))
        self.midlayer = HeadLayer(config)
        self.norm = LlamaRMSNorm(own, config.rms_norm_eps)
        self.lm_head = nn.Linear(own, words, bias=False)
        if embeds:
            self.embed_tokens = nn.Embedding(config.vocab_size, own)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        # How much larger than a word's number its token's is.
        self.register_buffer("d2t", torch.zeros(words, dtype=torch.long))

    @property
    def shape(self) -> LayerShape:
        """What the layer keeps of each token."""
        attention = self.midlayer.self_attn
        heads = attention.k_proj.out_features // attention.head_dim
        size = attention.head_dim
        return LayerShape(heads, size, size, self.fc.weight.dtype)

    def forward(
        self,
        tokens: Tensor,
        state: Tensor,
        positions: Tensor,
        length: int,
        kept: tuple[Kept, Kept],
    ) -> Tensor:
        """The states [1, tokens, width] after tokens [1, tokens], each beside the state at
        the token before it, at positions [1, tokens]. Reads `length` of the tokens that
        are kept."""
        layer = StateLayer(*kept, positions[0], length)
        sees = torch.arange(length) <= positions[:, None, :, None]
        return self.midlayer(
            self.embed_tokens(tokens),
            state,
            position_embeddings=self.rotary_emb(state, positions),
            attention_mask=sees,
            past_key_values=Cache(layers=[layer]),
        )

    def logits(self, state: Tensor) -> Tensor:
        """[1, words] of the last of these states."""
        return self.lm_head(self.norm(state[:, -1]))

    def tokens_of(self, words: Tensor) -> Tensor:
        return words + self.d2t[words]
