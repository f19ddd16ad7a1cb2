"""npu_fusion_attention equals a loop in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
import torchair

B, N, GROUPS, S, T, D = 2, 4, 2, 5, 7, 8
ORDERS = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3)}


def reference(q, k, v, scale, hidden=None, pse=None, sink=None):
    """Result, maxima and sums for a query (B, N, S, D) and a key (B, N2, T, D)."""
    k, v = (t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q.double() @ k.transpose(-1, -2)
    scores = (scores + (0 if pse is None else pse.double())) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if sink is not None:
        more = sink.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, more], -1)
        v = torch.cat([v, torch.zeros_like(v[:, :, :1])], 2)
    top = scores.amax(-1)
    weights = torch.softmax(scores, -1).nan_to_num()
    sums = (scores - top.unsqueeze(-1)).exp().sum(-1)
    return weights @ v, top, sums


def laid_out(tensor, layout):
    if layout in ORDERS:
        return tensor.permute(ORDERS[layout]).contiguous()
    order = (0, 2, 1, 3) if layout == "BSH" else (2, 0, 1, 3)
    return tensor.permute(order).flatten(-2)


def heads(dtype=torch.float32, groups=GROUPS):
    q = torch.randn(B, N, S, D, dtype=dtype)
    return q, *(torch.randn(B, N // groups, T, D, dtype=dtype) for _ in range(2))


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layouts(layout, dtype) -> None:
    parts = heads(dtype)
    wanted, top, sums = reference(*parts, 0.3)
    arguments = [laid_out(t, layout) for t in parts]

    def function(q, k, v):
        return torch_npu.npu_fusion_attention(q, k, v, N, layout, scale=0.3)[:3]

    backend = torchair.get_npu_backend()
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    for run in (function, torch.compile(function, backend=backend, fullgraph=True)):
        out, maxima, totals = run(*arguments)
        assert out.dtype == dtype
        torch.testing.assert_close(
            out.double(), laid_out(wanted, layout), atol=tolerance, rtol=tolerance
        )
        assert maxima.shape == totals.shape == (B, N, S, 8)
        torch.testing.assert_close(maxima[..., 3].double(), top, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(totals[..., 7].double(), sums, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4])
def test_masks(mode) -> None:
    parts = heads()
    mask = torch.rand(B, 1, S, T) < 0.4
    mask[..., 0] = False
    row, column = torch.arange(S).unsqueeze(-1), torch.arange(T)
    hidden = {
        0: mask | (column > row + 1) | (column < row - 2),
        1: mask,
        2: column > row,
        3: column > row + T - S,
        4: (column > row + T - S + 1) | (column < row + T - S - 2),
    }[mode]
    found = torch_npu.npu_fusion_attention(
        *parts,
        *(N, "BNSD"),
        atten_mask=mask if mode < 2 else torch.ones(2048, 2048).triu(1).bool(),
        pre_tockens=2,
        next_tockens=1,
        sparse_mode=mode,
    )
    wanted = reference(*parts, 1.0, hidden)[0]
    torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)
    assert found[3].numel() == 0
    assert found[4:] == (0, 0, 0)


def test_positions_and_rows_that_read_nothing() -> None:
    q, k, v = heads()
    pse = torch.randn(B, N, S, T)
    mask = torch.zeros(S, T, dtype=torch.uint8)
    mask[2] = 1
    found = torch_npu.npu_fusion_attention(
        q, k, v, N, "BNSD", pse=pse, atten_mask=mask, scale=0.5
    )
    wanted = reference(q, k, v, 0.5, mask.bool(), pse)[0]
    torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)
    assert torch.equal(found[0][:, :, 2], torch.zeros(B, N, D))


@pytest.mark.parametrize("mode", [0, 3])
def test_sinks(mode) -> None:
    parts, sink = heads(), torch.randn(N)
    row, column = torch.arange(S).unsqueeze(-1), torch.arange(T)
    found = torch_npu.npu_fusion_attention(
        *parts, N, "BNSD", scale=0.5, sparse_mode=mode, sink=sink
    )
    hidden = column > row + T - S if mode == 3 else None
    wanted = reference(*parts, 0.5, hidden, sink=sink)
    numbers = found[0], found[1][..., 0], found[2][..., 0]
    for number, right in zip(numbers, wanted):
        torch.testing.assert_close(number.double(), right, atol=1e-5, rtol=1e-5)


def test_sequences_of_different_lengths() -> None:
    queries, keys = [3, 3, 8], [4, 9, 15]
    q, k, v = torch.randn(8, N, D), torch.randn(15, N, D), torch.randn(15, N, D)
    found = torch_npu.npu_fusion_attention(
        q, k, v, N, "TND", actual_seq_qlen=queries, actual_seq_kvlen=keys, sparse_mode=3
    )
    for n in (0, 2):
        start, first = ([0, *queries][n], [0, *keys][n])
        parts = [q[start : queries[n]], k[first : keys[n]], v[first : keys[n]]]
        inner = [part.transpose(0, 1).unsqueeze(0) for part in parts]
        rows, columns = len(parts[0]), len(parts[1])
        hidden = torch.arange(columns) > torch.arange(rows)[:, None] + columns - rows
        wanted, top, _ = reference(*inner, 1.0, hidden)
        own = slice(start, queries[n])
        torch.testing.assert_close(
            found[0][own].double(), wanted[0].transpose(0, 1), atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(
            found[1][own][..., 0].double(), top[0].t(), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"keep_prob": 0.9}, NotImplementedError, "keep_prob=0.9"),
        ({"sparse_mode": 6}, NotImplementedError, "sparse_mode=6"),
        (
            {"dropout_mask": torch.zeros(4, dtype=torch.uint8)},
            NotImplementedError,
            r"dropout_mask must be None, got \(4,\)",
        ),
        ({"softmax_layout": "NTD"}, RuntimeError, "TND or empty, got 'NTD'"),
        ({"sink": torch.ones(9)}, RuntimeError, "sink must have shape"),
        ({"prefix": [1]}, NotImplementedError, "prefix is not supported"),
        ({"input_layout": "NBSD"}, RuntimeError, "no such input_layout: 'NBSD'"),
        ({"input_layout": "BSH"}, RuntimeError, "BSH needs 3 dimensions"),
        ({"input_layout": "TND"}, RuntimeError, "TND needs actual_seq_qlen"),
    ],
)
def test_what_is_refused(options, error, text) -> None:
    with pytest.raises(error, match=text):
        torch_npu.npu_fusion_attention(
            *heads(), N, **({"input_layout": "BNSD"} | options)
        )
