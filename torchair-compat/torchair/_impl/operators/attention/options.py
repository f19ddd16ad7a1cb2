"""The arguments of npu_fused_infer_attention_score, and which of them go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["FAR", "LAYOUTS", "Lengths", "Options", "as_tensor", "prefix_length"]

# The dimensions of a layout; "H" holds heads and elements.
LAYOUTS = {
    "BSH": "BSH",
    "BSND": "BSND",
    "BNSD": "BNSD",
    "TND": "TND",
    "NTD": "NTD",
    "NSD": "NSD",
    "BNSD_BSND": "BNSD",
    "BSH_BNSD": "BSH",
    "BSND_BNSD": "BSND",
    "NTD_TND": "NTD",
    "BSH_NBSD": "BSH",
    "BSND_NBSD": "BSND",
    "BNSD_NBSD": "BNSD",
    "TND_NTD": "TND",
}
FAR = 2147483647  # a number of tokens that stands for "no band"

Lengths: TypeAlias = Sequence[int] | Tensor | None


@dataclasses.dataclass
class Options:
    """The operator's arguments, by the names of version one."""

    pse_shift: Tensor | None = None
    atten_mask: Tensor | None = None
    actual_seq_lengths: Lengths = None
    actual_seq_lengths_kv: Lengths = None
    query_padding_size: Tensor | None = None
    kv_padding_size: Tensor | None = None
    block_table: Tensor | None = None
    key_shared_prefix: Tensor | None = None
    value_shared_prefix: Tensor | None = None
    actual_shared_prefix_len: Lengths = None
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    learnable_sink: Tensor | None = None
    num_heads: int = 1
    scale: float = 1.0
    pre_tokens: int = FAR
    next_tokens: int = FAR
    input_layout: str = "BSH"
    num_key_value_heads: int = 0
    sparse_mode: int = 0
    block_size: int = 0
    softmax_lse_flag: bool = False

    @property
    def dims(self) -> str:
        """The dimensions of query, key and value."""
        return LAYOUTS[self.input_layout]

    def check(self, query: Tensor, key: Tensor, name: str) -> None:
        """ValueError: an argument of the operator `name` is wrong, or does not fit
        another one."""
        if self.num_heads <= 0:
            raise ValueError(
                f"{name}: num_heads must be positive, got {self.num_heads}"
            )
        kv = self.num_key_value_heads
        if kv < 0 or (kv and self.num_heads % kv):
            raise ValueError(
                f"{name}: num_key_value_heads must divide num_heads, got {kv}"
            )
        if self.input_layout not in LAYOUTS:
            raise ValueError(
                f"{name}: no such input_layout: {self.input_layout!r}; known:"
                f" {', '.join(LAYOUTS)}"
            )
        if query.dim() != len(self.dims):
            raise ValueError(
                f"{name}: query must have {len(self.dims)} dimensions in the layout"
                f" {self.dims}, got {query.dim()}"
            )
        if "N" in self.dims:
            heads = query.shape[self.dims.index("N")]
            # 1 is the default.
            if self.num_heads not in (1, heads):
                raise ValueError(
                    f"{name}: num_heads must be {heads} as query has, got"
                    f" {self.num_heads}"
                )
        if "T" in self.dims and self.actual_seq_lengths is None:
            raise ValueError(
                f"{name}: the layout {self.dims} needs the lengths of sequences"
            )
        self._check_sparse_mode(name)
        self._check_pages(key, name)
        self._check_parts(name)

    def _check_sparse_mode(self, name: str) -> None:
        if self.sparse_mode not in (0, 1, 2, 3, 4, 9):
            raise ValueError(f"{name}: no such sparse_mode: {self.sparse_mode}")
        if self.sparse_mode in (1, 9) and self.atten_mask is None:
            raise ValueError(
                f"{name}: sparse_mode {self.sparse_mode} needs an atten_mask"
            )
        padded = self.query_padding_size is not None or self.kv_padding_size is not None
        if self.sparse_mode == 9 and (padded or self.key_shared_prefix is not None):
            raise ValueError(
                f"{name}: sparse_mode 9 takes neither paddings nor shared prefixes"
            )

    def _check_pages(self, key: Tensor, name: str) -> None:
        if self.block_table is None:
            return
        if self.actual_seq_lengths_kv is None:
            raise ValueError(
                f"{name}: a block_table needs the lengths of keys and values"
            )
        if key.dim() not in (3, 4, 5):
            raise ValueError(
                f"{name}: key must have 3 to 5 dimensions beside a block_table, got"
                f" {key.dim()}"
            )
        size = key.shape[{3: 1, 4: 2, 5: 3}[key.dim()]]
        if self.block_size not in (0, size):
            raise ValueError(
                f"{name}: block_size is {self.block_size}, but blocks of key have"
                f" {size} rows"
            )

    def _check_parts(self, name: str) -> None:
        """Rotary parts and prefixes come in pairs."""
        if (self.query_rope is None) != (self.key_rope is None):
            raise ValueError(
                f"{name}: query_rope and key_rope must both be given, or none"
            )
        prefixes = self.key_shared_prefix, self.value_shared_prefix
        if prefixes == (None, None):
            if self.actual_shared_prefix_len is not None:
                raise ValueError(
                    f"{name}: actual_shared_prefix_len needs key_shared_prefix and"
                    " value_shared_prefix"
                )
            return
        alone = self.block_table is None and self.query_rope is None
        if None in prefixes or "T" in self.dims or not alone:
            raise ValueError(
                f"{name}: a shared prefix needs keys and values, a layout with a batch,"
                " and neither a block_table nor rotary parts"
            )

    def check_lengths(self, what: str, states: Tensor, name: str) -> None:
        """ValueError: a length is negative, or beyond the rows of `states` (batch, heads,
        rows, elements); sums of lengths do not ascend. Tensors and symbols are data."""
        given: Lengths = getattr(self, what)
        most = states.shape[2]
        if given is None or isinstance(given, Tensor) or not isinstance(most, int):
            return
        numbers = [number for number in given if isinstance(number, int)]
        pages = what == "actual_seq_lengths_kv" and self.block_table is not None
        sums = "T" in self.dims and not pages
        fits = all(0 <= number <= most for number in numbers)
        if not fits or (sums and numbers != sorted(numbers)):
            rule = f"ascend up to {most}" if sums else f"be from 0 to {most}"
            raise ValueError(f"{name}: {what} must {rule}, got {list(given)}")

    def lengths(self, what: str, batch: int, name: str) -> Lengths:
        """`actual_seq_lengths` or `actual_seq_lengths_kv` for a batch. One length serves
        all sequences, and lengths beyond the batch are left out. Layouts without a batch
        take the lengths as they are. ValueError: fewer lengths than sequences."""
        given: Lengths = getattr(self, what)
        if given is None or "T" in self.dims:
            return given
        count = given.numel() if isinstance(given, Tensor) else len(given)
        if count == 1 or count == batch:
            return given
        if count < batch:
            raise ValueError(
                f"{name}: {what} must have 1 or at least {batch} elements, got {count}"
            )
        return given[:batch]


def prefix_length(used: Options, prefix: Tensor | None) -> Any:
    """How many rows of a shared prefix are read."""
    if prefix is None:
        return 0
    given = used.actual_shared_prefix_len
    return prefix.shape[used.dims.index("S")] if given is None else given[0]


def as_tensor(lengths: Lengths, like: Tensor) -> Tensor | None:
    """The lengths as a tensor. A list becomes int64, on the device of `like`."""
    if lengths is None or isinstance(lengths, Tensor):
        return lengths
    parts = [torch.scalar_tensor(n, dtype=torch.int64) for n in lengths]
    return torch.stack(parts).to(like.device)
