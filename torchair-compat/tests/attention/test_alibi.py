"""Attention with biases by distance, against loops over tokens in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
NEAR = {
    F16: {"atol": 5e-3, "rtol": 5e-3},
    BF16: {"atol": 4e-2, "rtol": 2e-2},
    F32: {"atol": 1e-5, "rtol": 1e-5},
}
HEADS, KV_HEADS = 4, 2
SLOPES = torch.tensor([-0.5, -0.25, 0.3, 0.0])


def attention(query, key, value, bias, first=None):
    """(rows, heads, d2) of one sequence in float64. `bias` (heads, rows, keys); keys behind
    a row's own place, `first` for the first row, are hidden unless it is None."""
    rows, heads, _ = query.shape
    out = torch.zeros(rows, heads, value.shape[2], dtype=torch.float64)
    for row in range(rows):
        for head in range(heads):
            group = head * key.shape[1] // heads
            scores = key[:, group].double() @ query[row, head].double() * 0.4
            scores = scores + bias[head, row].double()
            if first is not None:
                scores[first + row + 1 :] = float("-inf")
            out[row, head] = scores.softmax(0) @ value[:, group].double()
    return out


def distances(rows, keys, first=0, root=False):
    distance = (torch.arange(rows)[:, None] + first - torch.arange(keys)).clamp(min=0)
    distance = distance.double().sqrt() if root else distance.double()
    return SLOPES.double()[:, None, None] * distance


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("kind", [1, 2, 4, 5])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_packed_sequences(dtype, kind, flat) -> None:
    lengths = [3, 5]
    query = torch.randn(8, HEADS, 8).to(dtype)
    key, value = torch.randn(8, KV_HEADS, 8).to(dtype), torch.randn(8, KV_HEADS, 6)
    value = value.to(dtype)
    shape = (2, HEADS, 6, 6) if dtype == F16 else (HEADS, 6, 6)
    mask = torch.randn(1, 6, 6).to(dtype) if kind == 1 else torch.randn(shape).to(dtype)
    slopes = SLOPES if kind > 2 else None

    def function(query, key, value, mask, slopes):
        return torch_npu.atb._npu_flash_attention_v2(
            query, key, value, lengths, mask=mask, slopes=slopes, mask_type=kind,
            scale_value=0.4, num_heads=HEADS, num_kv_heads=KV_HEADS,
        )  # fmt: skip

    given = [t.flatten(1) if flat else t for t in (query, key, value)]
    found = both(function, *given, mask, slopes, **NEAR[dtype])
    assert found.dim() == query.dim() - flat
    start = 0
    for number, size in enumerate(lengths):
        own = slice(start, start + size)
        if kind > 2:
            bias = distances(size, size, root=kind == 5)
        else:
            table = mask if mask.dim() == 4 else mask.unsqueeze(0)
            table = table[number if table.shape[0] > 1 else 0]
            bias = table[:, :size, :size].expand(HEADS, size, size)
        first = None if kind == 1 else 0
        wanted = attention(query[own], key[own], value[own], bias, first)
        made = found[own].reshape(size, HEADS, 6).double()
        torch.testing.assert_close(made, wanted, **NEAR[dtype])
        start += size


@pytest.mark.parametrize("kind", [3, 4, 5])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_tokens_after_a_prefix(dtype, kind) -> None:
    """Pages of no sequence, and rows behind one, are NaN and reach no result."""
    new, whole, size = [2, 3], [7, 3], 4
    table = torch.tensor([[3, 0], [1, -1]], dtype=torch.int32)
    query = torch.randn(5, HEADS, 8).to(dtype)
    key, value = (torch.randn(4, size, KV_HEADS, 8).to(dtype) for _ in range(2))
    key[2] = value[2] = float("nan")
    key[0, 3:] = value[0, 3:] = key[1, 3:] = value[1, 3:] = float("nan")
    out = torch.empty(5, HEADS, 8, dtype=dtype)

    def function(query, key, value, table, out, slopes):
        return torch_npu.atb._npu_flash_attention_prefix_v2(
            query, key, value, table, torch.ones(4, 4), new, whole, slopes=slopes, mask_type=kind,
            scale_value=0.4, num_heads=HEADS, num_kv_heads=KV_HEADS, out=out,
        )  # fmt: skip

    pages = [t.flatten(2) for t in (key, value)]
    both(function, query, *pages, table, out, SLOPES, equal_nan=True, **NEAR[dtype])
    start = 0
    for number, (rows, keys) in enumerate(zip(new, whole)):
        own = [
            t[table[number].long().clamp(min=0)].flatten(0, 1)[:keys]
            for t in (key, value)
        ]
        first = keys - rows
        bias = distances(rows, keys, first, kind == 5)
        bias = bias if kind > 3 else torch.zeros_like(bias)
        wanted = attention(query[start : start + rows], *own, bias, first)
        made = out[start : start + rows].double()
        torch.testing.assert_close(made, wanted, **NEAR[dtype])
        start += rows


X = torch.randn(4, HEADS, 8)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mask_type": 3}, "mask_type must be one of"),
        ({"mask_type": 4, "slopes": None}, "mask_type 4 needs slopes"),
        ({"mask_type": 4, "slopes": torch.ones(3)}, r"slopes must have shape \(4,\)"),
        ({"mask_type": 2}, "mask_type 1 and 2 need mask"),
        ({"mask_type": 2, "mask": torch.ones(4, 3, 3)}, "mask must be"),
        ({"seq_len": [3]}, "seq_len must sum up to 4 tokens"),
        ({"kernel_type": 3}, "kernel_type must be 0 to 2"),
    ],
)
def test_wrong(change, text) -> None:
    right = {
        "query": X, "key": X, "value": X, "seq_len": [4], "mask_type": 4,
        "slopes": SLOPES, "num_heads": HEADS,
    }  # fmt: skip
    with pytest.raises(RuntimeError, match=f"_npu_flash_attention_v2: {text}"):
        torch_npu.atb._npu_flash_attention_v2(**{**right, **change})


def test_wrong_lengths() -> None:
    table = torch.zeros(1, 1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="context_lens be none below"):
        torch_npu.atb._npu_flash_attention_prefix_v2(
            X, X, X, table, torch.ones(4, 4), [4], [3], num_heads=HEADS
        )
