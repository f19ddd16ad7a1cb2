"""MiniLM-L6 with its mean over tokens, in PyTorch: for the export and for eager."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # a Python package has the weights

import torch
from embedding import MODEL
from transformers import AutoModel


class SentenceModel(torch.nn.Module):
    """Ids and mask (int64, rows x tokens) to unit vectors (f32, rows x 384)."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = AutoModel.from_pretrained(str(MODEL)).eval()
        self.eval()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean)
