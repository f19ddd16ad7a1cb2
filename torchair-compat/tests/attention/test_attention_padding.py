"""npu_fused_infer_attention_score equals loops in float64 for sequences with padding, int4,
and pages in FRACTAL_NZ."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from pictures import compiled

op = torch_npu.npu_fused_infer_attention_score
B, N, S, T, D = 2, 4, 6, 8, 16


def attention(q, k, v, keep=None):
    scores = q.double() @ k.double().transpose(-1, -2) * 0.3
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.softmax(scores, -1) @ v.double()


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("sparse", [0, 3])
@pytest.mark.parametrize(("rows", "columns"), [([4, 2], [6, 5]), ([1, 3], [3, 7])])
def test_rows_before_and_after(rows, columns, sparse, lse) -> None:
    """Each sequence ends some rows before the last one."""
    after = {"query_padding_size": 2, "kv_padding_size": 1}
    q, k, v = torch.randn(B, N, S, D), torch.randn(B, 2, T, D), torch.randn(B, 2, T, D)

    def run(q, k, v, before, after):
        return op(
            q,
            k,
            v,
            num_heads=N,
            num_key_value_heads=2,
            scale=0.3,
            input_layout="BNSD",
            sparse_mode=sparse,
            pre_tokens=1,  # padding ignores the mask in mode 0
            actual_seq_lengths=rows,
            actual_seq_lengths_kv=columns,
            query_padding_size=before,
            kv_padding_size=after,
            softmax_lse_flag=lse,
        )

    wanted = torch.zeros(B, N, S, D, dtype=torch.float64)
    for b in range(B):
        mine = slice(S - 2 - rows[b], S - 2)
        theirs = slice(T - 1 - columns[b], T - 1)
        keys, values = (t[b, :, theirs].repeat_interleave(2, 0) for t in (k, v))
        keep = torch.ones(rows[b], columns[b], dtype=torch.bool)
        keep = keep.tril(columns[b] - rows[b]) if sparse else keep
        wanted[b, :, mine] = attention(q[b, :, mine], keys, values, keep)
    wanted = wanted.nan_to_num(0.0)
    padding = [torch.tensor([n]) for n in after.values()]
    for function in (run, compiled(run)):
        found = function(q, k, v, *padding)[0]
        torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("after", [5, -4])
def test_one_row(after) -> None:
    """One row has no padding. A sequence that does not fit gives zeros."""
    q, k, v = torch.randn(B, N, 1, D), torch.randn(B, N, T, D), torch.randn(B, N, T, D)
    lengths = [3, 4]

    def run(q, k, v, padding):
        return op(
            q,
            k,
            v,
            num_heads=N,
            scale=0.3,
            input_layout="BNSD",
            actual_seq_lengths_kv=lengths,
            kv_padding_size=padding,
        )[0]

    end = T - max(after, 0)
    wanted = [
        attention(q[b], k[b, :, end - n : end], v[b, :, end - n : end])
        if end >= n
        else torch.zeros(N, 1, D, dtype=torch.float64)
        for b, n in enumerate(lengths)
    ]
    for function in (run, compiled(run)):
        found = function(q, k, v, torch.tensor([after])).double()
        torch.testing.assert_close(found, torch.stack(wanted), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_keys_and_values_of_int4(layout) -> None:
    q = torch.randn(B, N, S, D, dtype=torch.bfloat16)
    stored = [torch.randint(-8, 8, (B, N, T, D), dtype=torch.int32) for _ in range(2)]
    scale, offset = torch.rand(2, N, 1, D) / 4, torch.randn(2, N, 1, D)
    keys = [(x + o.double()) * s for x, s, o in zip(stored, scale, offset)]
    wanted = attention(q, *keys)
    pack = torch_npu.npu_convert_weight_to_int4pack
    inputs = [q, *map(pack, stored)]
    if layout == "BSH":
        inputs = [t.transpose(1, 2).flatten(2) for t in inputs]
        wanted = wanted.transpose(1, 2).flatten(2)

    def run(q, k, v):
        return op(
            q,
            k,
            v,
            num_heads=N,
            scale=0.3,
            input_layout=layout,
            antiquant_scale=scale,
            antiquant_offset=offset,
        )[0]

    for function in (run, compiled(run)):
        found = function(*inputs).double()
        torch.testing.assert_close(found, wanted, atol=3e-2, rtol=3e-2)


def test_int4_stands_alone() -> None:
    q, packed = torch.randn(B, N, S, D), torch.zeros(B, N, T, 2, dtype=torch.int32)
    options = {"num_heads": N, "input_layout": "BNSD"}
    with pytest.raises(ValueError, match="must both be int32 of int4, got torch.int32"):
        op(q, packed, q, **options)
    pages = torch.zeros(B, 1, dtype=torch.int32)
    with pytest.raises(ValueError, match="need a floating query, no block_table"):
        op(
            *(q, packed, packed),
            **options,
            block_table=pages,
            actual_seq_lengths_kv=[1] * B,
        )


def test_pages_in_fractal_nz() -> None:
    size, kind = 4, torch.int8
    dim = 64
    q = torch.randn(B, N, S, dim, dtype=torch.bfloat16)
    k, v = (torch.randint(-128, 128, (5, 2, size, dim), dtype=kind) for _ in range(2))
    table = torch.tensor([[3, 1], [0, 4]], dtype=torch.int32)
    scale = torch.rand(2, 2, 1, dim) / 256
    options = {
        "num_heads": N,
        "num_key_value_heads": 2,
        "scale": 0.3,
        "input_layout": "BNSD",
        "actual_seq_lengths_kv": [7, 8],
        "block_size": size,
    }

    def run(q, k, v, table):
        return op(
            q,
            k,
            v,
            block_table=table,
            key_antiquant_scale=scale[0],
            value_antiquant_scale=scale[1],
            **options,
        )[0]

    blocked = [x.unflatten(3, (2, 32)).transpose(2, 3).contiguous() for x in (k, v)]
    wanted = []
    for b, length in enumerate(options["actual_seq_lengths_kv"]):
        parts = []
        for x, s in zip((k, v), scale.double()):
            rows = torch.cat([x[page] for page in table[b]], 1)[:, :length]
            parts.append((rows * s).repeat_interleave(2, 0))
        wanted.append(attention(q[b], *parts))
    for function in (run, compiled(run)):
        found = function(q, *blocked, table).double()
        torch.testing.assert_close(found, torch.stack(wanted), atol=3e-2, rtol=3e-2)
