"""npu_fusion_attention and npu_fusion_attention_v3: attention that also returns maxima and
sums, for training code.

After Ascend's API reference of torch_npu, pages npu_fusion_attention and
npu_fusion_attention_v3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import FLOATS, check, check_dtype, check_shape
from ..definition import npu_function
from .dropout import kept_elements, mask_bits, mask_bytes
from .fusion_masks import (
    FOREVER,
    NAME,
    PLAIN_PSE,
    ROOT_SLOPES,
    SCALED_PSE,
    Sparse,
    biases,
    distances,
)

# The order of dimensions that makes (batch, heads, length, width) of a layout.
_ORDERS = {"BSND": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3)}
_JOINED = {"BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}

Result = tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]


@npu_function
def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = FOREVER,
    next_tockens: int = FOREVER,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    seed: int = 0,
    offset: int = 0,
) -> Result:
    """dropout(softmax(mask(scale (query key^T + pse)))) value, computed in f32.

    input_layout  BSH, SBH, BSND, BNSD, or TND with sums of lengths in `actual_seq_qlen`
                  and `actual_seq_kvlen`; zeros after them are sequences without rows
    atten_mask    bool or uint8: true where nothing is read; None: everything is read
    sparse_mode   0 and 1 take that mask, 0 also the band of `pre_tockens` and
                  `next_tockens`; 2 and 3 are causal, from the upper left and the lower
                  right; 4 is that band around the lower right; 5, with that mask, and 6
                  are mode 3, where all rows read the first `prefix` keys of each batch;
                  for TND, 7 is mode 3 and in the last sequence mode 4, 8 is mode 2 and
                  in the first sequence mode 4
    pse           (batch or 1, heads, rows or 1, columns), or the last 1024 rows of more,
                  if they depend on the distance of row and column only
    sink          (head_num,) f32: logits that take part in the softmax of each row
    keep_prob     each weight is kept with this chance, divided by it, else 0
    dropout_mask  bits of _npu_dropout_gen_mask that say which are kept; None: they come
                  from `seed` and `offset`, or from PyTorch's generator where seed is 0

    Returns the result in the layout and dtype of query; maxima and sums of the softmax
    (batch, heads, length, 8) f32; an empty tensor; and the seed, the offset and the
    number of elements of the dropout, zeros without one. A row that reads nothing is 0.
    RuntimeError: shapes, dtypes or modes that do not fit together.
    NotImplementedError: padding_mask.
    """
    if padding_mask is not None:
        raise NotImplementedError(f"{NAME}: padding_mask is not supported on this host")
    sparse = Sparse(atten_mask, sparse_mode, pre_tockens, next_tockens, prefix)
    work = Work(query, key, value, head_num, input_layout, pse, scale, sparse, sink)
    work.check(softmax_layout, keep_prob)
    lengths = work.lengths(actual_seq_qlen, actual_seq_kvlen)
    return work.result(lengths, keep_prob, dropout_mask, seed, offset)


@npu_function
def npu_fusion_attention_v3(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = FOREVER,
    next_tockens: int = FOREVER,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """npu_fusion_attention for graphs: lengths are tensors, and the seed of a dropout
    comes from PyTorch's generator and is returned as a tensor, as is the offset. In a
    graph, lengths that are tensors break it."""
    if padding_mask is not None:
        raise NotImplementedError(
            f"{NAME}_v3: padding_mask is not supported on this host"
        )
    rule = (atten_mask, sparse_mode, pre_tockens, next_tockens, prefix)
    sparse = Sparse(*rule, f"{NAME}_v3")
    work = Work(query, key, value, head_num, input_layout, pse, scale, sparse, sink)
    work.check(softmax_layout, keep_prob)
    lengths = None
    if input_layout == "TND":
        sums = [
            None if ends is None else ends.tolist()
            for ends in (actual_seq_qlen, actual_seq_kvlen)
        ]
        lengths = work.lengths(*sums)
    offset = torch.zeros(1, dtype=torch.int64)
    if keep_prob == 1:
        return *work.run(lengths, None), offset, offset.clone()
    seed = torch.randint(1, 2**62, (1,))
    numels = work.weights(lengths)
    kept = kept_elements(numels, keep_prob, seed.to(query.device), 0)
    return *work.run(lengths, (kept, keep_prob)), seed, offset


class Work(NamedTuple):
    """The operands and rules of one call."""

    query: Tensor
    key: Tensor
    value: Tensor
    head_num: int
    layout: str
    pse: Tensor | None
    scale: float
    sparse: Sparse
    sink: Tensor | None
    pse_type: int = SCALED_PSE
    starts: tuple[int, int] = (0, 0)  # the places of the first row and column

    def check(self, softmax_layout: str, keep_prob: float) -> None:
        name = self.sparse.name
        known = self.layout in (*_ORDERS, *_JOINED, "TND")
        check(known, name, f"no such input_layout: {self.layout!r}")
        known = softmax_layout in ("", "TND")
        text = f"softmax_layout must be TND or empty, got {softmax_layout!r}"
        check(known, name, text)
        text = f"keep_prob must be above 0 and at most 1, got {keep_prob}"
        check(0 < keep_prob <= 1, name, text)
        check(
            self.head_num > 0, name, f"head_num must be positive, got {self.head_num}"
        )
        if "N" in self.layout and self.query.dim() == len(self.layout):
            heads = self.query.shape[self.layout.index("N")]
            text = f"head_num must be {heads} as query has, got {self.head_num}"
            check(self.head_num == heads, name, text)
        check_dtype(self.sink, name, "sink", (torch.float32,))
        check_shape(self.sink, name, "sink", (self.head_num,))
        check_dtype(self.query, name, "query")
        for what, tensor in (("key", self.key), ("value", self.value)):
            check_dtype(tensor, name, what, (self.query.dtype,))
        check_dtype(self.pse, name, "pse", FLOATS)
        self.sparse.check(self.layout, self.pse is not None)

    def lengths(
        self, queries: Sequence[int] | None, keys: Sequence[int] | None
    ) -> tuple[list[int], list[int]] | None:
        """The lengths of sequences from their sums, for the layout TND."""
        if self.layout != "TND":
            return None
        name = self.sparse.name
        return (
            _sequence_lengths("actual_seq_qlen", queries, self.query, name),
            _sequence_lengths("actual_seq_kvlen", keys, self.key, name),
        )

    def result(
        self,
        lengths: tuple[list[int], list[int]] | None,
        keep_prob: float,
        dropout_mask: Tensor | None,
        seed: int,
        offset: int,
    ) -> Result:
        """All results. The dropout keeps what the mask says, or what comes from `seed`
        and `offset`; PyTorch's generator makes the seed where it is 0."""
        if keep_prob == 1:
            return *self.run(lengths, None), 0, 0, 0
        name, numels = self.sparse.name, self.weights(lengths)
        if dropout_mask is None:
            seed = seed or int(torch.randint(1, 2**62, (1,)))
            drawn = torch.full((1,), seed, dtype=torch.int64, device=self.query.device)
            kept = kept_elements(numels, keep_prob, drawn, offset)
        else:
            check_dtype(dropout_mask, name, "dropout_mask", (torch.uint8,))
            check_shape(dropout_mask, name, "dropout_mask", (mask_bytes(numels),))
            kept = mask_bits(dropout_mask, numels)
        return *self.run(lengths, (kept, keep_prob)), seed, offset, numels

    def run(
        self,
        lengths: tuple[list[int], list[int]] | None,
        dropout: tuple[Tensor, float] | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first four results. `dropout` has a bool for each weight of the softmax,
        and the chance that it is kept."""
        if lengths is None:
            parts = [self._heads(what) for what in ("query", "key", "value")]
            out, top, total = self._attend(parts, self.pse, self.sparse, dropout)
            out = _back(out, self.layout)
        else:
            out, top, total = self._of_sequences(lengths, dropout)
        out = out.to(self.query.dtype)
        return out, *_eight(top, total), self.query.new_empty(0)

    def weights(self, lengths: tuple[list[int], list[int]] | None) -> int:
        """How many weights the softmax has in all."""
        if lengths is not None:
            return self.query.shape[1] * sum(a * b for a, b in zip(*lengths))
        query, key = self._heads("query"), self._heads("key")
        return query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]

    def _heads(self, what: str) -> Tensor:
        """The operand of this name as (batch, heads, length, width)."""
        name, tensor = self.sparse.name, getattr(self, what)
        dims = 4 if self.layout in _ORDERS else 3
        text = (
            f"{what} in {self.layout} must have {dims} dimensions, got {tensor.dim()}"
        )
        check(tensor.dim() == dims, name, text)
        if self.layout in _ORDERS:
            return tensor.permute(_ORDERS[self.layout])
        whole = self.query.shape[-1]
        width = whole // self.head_num
        fits = width * self.head_num == whole and tensor.shape[-1] % width == 0
        text = (
            f"head_num {self.head_num} does not split {what}'s width {tensor.shape[-1]}"
        )
        check(fits, name, text)
        return tensor.unflatten(-1, (-1, width)).permute(_JOINED[self.layout])

    def _attend(
        self,
        parts: Sequence[Tensor],
        pse: Tensor | None,
        sparse: Sparse,
        dropout: tuple[Tensor, float] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The attention (batch, heads, length, width), and maxima and sums with a width
        of 1."""
        query, key, value = (part.to(torch.float32) for part in parts)
        groups, rest = divmod(query.shape[1], key.shape[1])
        text = f"{key.shape[1]} heads of key, {query.shape[1]} of query"
        check(rest == 0, self.sparse.name, text)
        key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
        scores = query @ key.transpose(-1, -2)
        if pse is not None and self.pse_type == SCALED_PSE:
            scores = scores + biases(pse, scores, sparse)
        scores = scores * self.scale
        if pse is not None and self.pse_type == PLAIN_PSE:
            scores = scores + biases(pse, scores, sparse)
        elif pse is not None and self.pse_type != SCALED_PSE:
            root = self.pse_type == ROOT_SLOPES
            scores = scores + distances(pse, scores, self.starts, root, sparse.name)
        hidden = sparse.hidden(scores)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        top = scores.amax(-1, keepdim=True)
        sink = None if self.sink is None else self.sink.reshape(1, -1, 1, 1)
        if sink is not None:
            top = torch.maximum(top, sink)
        top = torch.where(top == -torch.inf, 0.0, top)
        chances = (scores - top).exp()
        total = chances.sum(-1, keepdim=True)
        if sink is not None:
            total = total + (sink - top).exp()
        shares = chances / torch.where(total == 0, 1.0, total)
        if dropout is not None:
            kept, keep_prob = dropout
            shares = torch.where(kept.reshape(shares.shape), shares / keep_prob, 0.0)
        return shares @ value, top, total

    def _of_sequences(
        self,
        lengths: tuple[list[int], list[int]],
        dropout: tuple[Tensor, float] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys = lengths
        text = "actual_seq_qlen and actual_seq_kvlen must have as many numbers"
        check(len(queries) == len(keys), self.sparse.name, text)
        tensors, sizes = (self.query, self.key, self.value), (queries, keys, keys)
        rows = self.query.shape[0]
        made, first = [], 0
        for number, parts in enumerate(
            zip(*(t[: sum(s)].split(s) for t, s in zip(tensors, sizes)))
        ):
            inner = [part.transpose(0, 1).unsqueeze(0) for part in parts]
            own, pse = dropout, self.pse
            if dropout is not None:
                count = self.query.shape[1] * queries[number] * keys[number]
                own = dropout[0][first : first + count], dropout[1]
                first += count
            if pse is not None and pse.dim() > 1:
                pse = pse if pse.shape[0] == 1 else pse[number : number + 1]
            if keys[number] == 0:  # no key has a largest score
                shapes = (parts[2].shape[-1], 1, 1)
                heads = parts[0].shape[:2]
                nothing = [self.query.new_zeros(*heads, n).float() for n in shapes]
                made.append(nothing)
                continue
            sparse = self.sparse.of_sequence(number, lengths)
            results = self._attend(inner, pse, sparse, own)
            made.append([part.squeeze(0).transpose(0, 1) for part in results])
        joined = [torch.cat(parts) for parts in zip(*made)]
        padding = (0, 0, 0, 0, 0, rows - sum(queries))
        out, top, total = (torch.nn.functional.pad(part, padding) for part in joined)
        return out, top, total


def _back(out: Tensor, layout: str) -> Tensor:
    if layout in _ORDERS:
        return out.permute(_ORDERS[layout])
    order = (0, 2, 1, 3) if layout == "BSH" else (2, 0, 1, 3)
    return out.permute(order).flatten(-2)


def _eight(*numbers: Tensor) -> list[Tensor]:
    return [n.expand(*n.shape[:-1], 8).contiguous() for n in numbers]


def _sequence_lengths(
    what: str, sums: Sequence[int] | None, tensor: Tensor, name: str
) -> list[int]:
    """The lengths from their sums. Zeros after the others are sequences that are left
    out."""
    check(sums is not None and len(sums) > 0, name, f"TND needs {what}")
    assert sums is not None
    check(
        tensor.dim() == 3,
        name,
        f"TND needs 3 dimensions beside {what}, got {tensor.dim()}",
    )
    given = [int(end) for end in sums]
    used = len(given)
    while used > 1 and given[used - 1] == 0:
        used -= 1
    ends = given[:used] + given[used - 1 : used] * (len(given) - used)
    lengths = [end - start for start, end in zip([0, *ends], ends)]
    left = used < len(given) and ends[-1] <= tensor.shape[0]
    right = min(lengths) >= 0 and (left or ends[-1] == tensor.shape[0])
    check(right, name, f"{what} {given} does not split {tensor.shape[0]} tokens")
    return lengths
