"""Trains a head of EAGLE-3 for a model on texts that the model continued itself.

The head learns to guess the token after the next one from three hidden states, and goes on
from its own states for some tokens, as it does when it guesses. Minutes on one CPU are
enough for guesses that save time, and far from what published heads reach."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from anabranch.llm.speculation.eagle_checkpoint import Eagle3
from anabranch.llm.speculation.eagle_head import Eagle3Head

# Guesses in a row that the head learns.
UNROLLED = 3


def trained(
    model: Any, texts: torch.Tensor, words: int, steps: int, rows: int = 4
) -> Eagle3:
    """A head for `model`, which knows the `words` most frequent tokens of `texts`, int64
    [texts, tokens]."""
    config = head_config(model, texts, words)
    draft = Eagle3(config, {}, UNROLLED + 1, "trained")
    head = Eagle3Head(config, model.config.hidden_size, embeds=False)
    counts = torch.bincount(texts.flatten(), minlength=model.config.vocab_size)
    known = counts.topk(config.draft_vocab_size).indices.sort().values
    word_of = torch.full((model.config.vocab_size,), -1)
    word_of[known] = torch.arange(len(known))
    head.d2t.copy_(known - torch.arange(len(known)))
    with torch.no_grad():
        head.lm_head.weight.copy_(model.get_output_embeddings().weight[known])
        head.norm.weight.copy_(model.model.norm.weight)
    head.embed_tokens = model.get_input_embeddings()
    features = [features_of(model, part, draft) for part in texts.split(8)]
    learn(head, texts, torch.cat(features), word_of, steps, rows)
    state = {
        name: tensor.detach().clone()
        for name, tensor in head.state_dict().items()
        if not name.startswith("embed_tokens.")
    }
    return Eagle3(config, state, UNROLLED + 1, "trained")


def head_config(model: Any, texts: torch.Tensor, words: int) -> Any:
    from transformers import LlamaConfig

    of = model.config.to_dict()
    made = LlamaConfig(**of | {"num_hidden_layers": 1, "layer_types": None})
    made.draft_vocab_size = min(words, int(texts.unique().numel()))
    made._attn_implementation = "sdpa"
    return made


@torch.no_grad()
def features_of(model: Any, texts: torch.Tensor, draft: Eagle3) -> torch.Tensor:
    found = model(texts, output_hidden_states=True, logits_to_keep=1).hidden_states
    return torch.cat([found[at] for at in draft.layers(model)], -1)


def learn(
    head: Eagle3Head,
    texts: torch.Tensor,
    features: torch.Tensor,
    word_of: torch.Tensor,
    steps: int,
    rows: int,
) -> None:
    taught = [p for n, p in head.named_parameters() if not n.startswith("embed_tokens")]
    optimizer = torch.optim.AdamW(taught, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, begin = torch.Generator().manual_seed(0), time.process_time()
    for step in range(steps):
        chosen = torch.randperm(len(texts), generator=generator)[:rows]
        loss, right = loss_of(head, texts[chosen], features[chosen], word_of)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(taught, 0.5)
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            spent = time.process_time() - begin
            shares = ", ".join(f"{share:.2f}" for share in right)
            print(
                f"  step {step + 1}: right guesses {shares}; {spent:.0f} s", flush=True
            )


def loss_of(
    head: Eagle3Head, texts: torch.Tensor, features: torch.Tensor, word_of: torch.Tensor
) -> tuple[torch.Tensor, list[float]]:
    """The loss of some guesses in a row, and which part of each was right."""
    state, loss, right = head.fc(features), torch.zeros(()), []
    for ahead in range(1, UNROLLED + 1):
        # Row i stands beside token i + ahead, and guesses the one after that.
        length = texts.shape[1] - ahead - 1
        places = torch.arange(length)
        state = head.midlayer(
            head.embed_tokens(texts[:, ahead : ahead + length]),
            state[:, :length],
            position_embeddings=head.rotary_emb(state, places.unsqueeze(0)),
            attention_mask=(places <= places[:, None]).expand(1, 1, -1, -1),
        )
        logits = head.lm_head(head.norm(state)).flatten(0, 1)
        wanted = word_of[texts[:, ahead + 1 : ahead + 1 + length]].flatten()
        loss = loss + cross_entropy(logits, wanted, ignore_index=-1)
        right.append(float((logits.argmax(-1) == wanted).float().mean()))
    return loss / UNROLLED, right
