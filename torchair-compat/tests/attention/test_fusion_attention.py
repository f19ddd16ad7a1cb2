"""npu_fusion_attention equals a loop in float64."""

from __future__ import annotations

import pytest
import torch

import torch_npu
import torchair

B, N, GROUPS, S, T, D = 2, 4, 2, 5, 7, 8
CAUSAL = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
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
        atten_mask=mask if mode < 2 else CAUSAL,
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
        *(*parts, N, "BNSD"),
        scale=0.5,
        atten_mask=CAUSAL if mode else None,
        sparse_mode=mode,
        sink=sink,
    )
    hidden = column > row + T - S if mode == 3 else None
    wanted = reference(*parts, 0.5, hidden, sink=sink)
    numbers = found[0], found[1][..., 0], found[2][..., 0]
    for number, right in zip(numbers, wanted):
        torch.testing.assert_close(number.double(), right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", [5, 6])
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (5, 7), (7, 5)])
def test_prefixes(mode, rows, columns) -> None:
    """Every row reads the first keys of its batch, besides those before it."""
    q = torch.randn(B, N, rows, D)
    k, v = (torch.randn(B, GROUPS, columns, D) for _ in range(2))
    prefix = [max(columns - rows, 0), columns - 1]
    row, column = torch.arange(rows).unsqueeze(-1), torch.arange(columns)
    hidden = torch.stack(
        [(column > row + columns - rows) & (column >= number) for number in prefix]
    ).unsqueeze(1)
    lower = torch.zeros(1024, 2048, dtype=torch.bool)
    lower[:, 1024:] = True
    found = torch_npu.npu_fusion_attention(
        *(q, k, v, N, "BNSD"),
        atten_mask=hidden if mode == 5 else torch.cat([CAUSAL, lower]),
        prefix=prefix,
        sparse_mode=mode,
    )
    wanted = reference(q, k, v, 1.0, hidden)[0]
    torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)


def test_without_a_mask_everything_is_read() -> None:
    parts = heads()
    wanted = reference(*parts, 1.0)[0]
    for mode in (0, 2, 3, 4, 5, 6):
        found = torch_npu.npu_fusion_attention(
            *parts, N, "BNSD", sparse_mode=mode, pre_tockens=1, next_tockens=0
        )
        torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)


QUERIES, KEYS = [3, 0, 5], [4, 5, 6]
SEQUENCE_MODES = {
    2: lambda n, row, column, shift: column > row,
    3: lambda n, row, column, shift: column > row + shift,
    6: lambda n, row, column, shift: (column > row + shift) & (column >= [4, 5, 2][n]),
    7: lambda n, row, column, shift: (
        (column > row + shift - (2 if n == 2 else 0))
        | (column < row + shift - (3 if n == 2 else 99))
    ),
    8: lambda n, row, column, shift: (
        (column > row + shift - 2) | (column < row + shift - 3)
        if n == 0
        else column > row
    ),
}


@pytest.mark.parametrize("mode", SEQUENCE_MODES)
@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("graph", [False, True])
def test_sequences_of_different_lengths(mode, more, graph) -> None:
    """`more` sequences after the others, and tokens after those, take no part."""
    ends = [list(torch.tensor(sizes).cumsum(0)) for sizes in (QUERIES, KEYS)]
    sums = [[int(end) for end in e] + [0] * more for e in ends]
    q, k, v = torch.randn(8 + more, N, D), *(torch.randn(15, N, D) for _ in range(2))
    prefix = [4, 5, 2] + [0] * more if mode == 6 else None
    options = {
        "atten_mask": CAUSAL,
        "sparse_mode": mode,
        "pre_tockens": 3,
        "next_tockens": -2,
        "prefix": prefix,
    }

    def function(q, k, v):
        return torch_npu.npu_fusion_attention(
            *(q, k, v, N, "TND"),
            actual_seq_qlen=sums[0],
            actual_seq_kvlen=sums[1],
            **options,
        )[:3]

    backend = torchair.get_npu_backend()
    run = torch.compile(function, backend=backend, fullgraph=True)
    found = run(q, k, v) if graph else function(q, k, v)
    tensors = [torch.tensor(s) for s in sums]
    other = torch_npu.npu_fusion_attention_v3(
        *(q, k, v, N, "TND"),
        actual_seq_qlen=tensors[0],
        actual_seq_kvlen=tensors[1],
        **options,
    )
    torch.testing.assert_close(other[:3], found)
    assert not found[0][8:].any()
    start = first = 0
    for n, (rows, columns) in enumerate(zip(QUERIES, KEYS)):
        own, read = slice(start, start + rows), slice(first, first + columns)
        start, first = start + rows, first + columns
        if rows == 0:
            continue
        inner = [t.transpose(0, 1).unsqueeze(0) for t in (q[own], k[read], v[read])]
        row, column = torch.arange(rows).unsqueeze(-1), torch.arange(columns)
        hidden = SEQUENCE_MODES[mode](n, row, column, columns - rows)
        wanted = reference(*inner, 1.0, hidden)[0]
        torch.testing.assert_close(
            found[0][own].double(), wanted[0].transpose(0, 1), atol=1e-5, rtol=1e-5
        )


def test_sequences_that_start_and_end_inside() -> None:
    """A sequence whose queries are two calls: mode 7 ends in it, mode 8 begins in it."""
    q, k, v = torch.randn(9, N, D), torch.randn(9, N, D), torch.randn(9, N, D)
    call = torch_npu.npu_fusion_attention
    for whole, part in ((3, 7), (2, 8)):
        wanted = call(
            *(q, k, v, N, "TND"),
            atten_mask=CAUSAL,
            actual_seq_qlen=[3, 9],
            actual_seq_kvlen=[3, 9],
            sparse_mode=whole,
        )[0]
        start, end = ([3, 9], [3, 7]) if part == 7 else ([4, 9], None)
        if part == 7:
            made = call(
                *(q[:7], k, v, N, "TND"),
                atten_mask=CAUSAL,
                actual_seq_qlen=end,
                actual_seq_kvlen=start,
                sparse_mode=7,
                pre_tockens=6,
                next_tockens=-2,
            )[0]
            torch.testing.assert_close(made, wanted[:7])
            continue
        made = call(
            *(q[5:], k[3:], v[3:], N, "TND"),
            atten_mask=CAUSAL,
            actual_seq_qlen=[4],
            actual_seq_kvlen=[6],
            sparse_mode=8,
            pre_tockens=6,
            next_tockens=0,
        )[0]
        torch.testing.assert_close(made, wanted[5:])


def test_the_last_biases_of_distances_are_enough() -> None:
    size = 1040
    q, k, v = (torch.randn(1, 2, size, 4) for _ in range(3))
    row, column = torch.arange(size).unsqueeze(-1), torch.arange(size)
    slopes = torch.tensor([0.5, 0.125]).reshape(1, 2, 1, 1)
    pse = slopes * (column - row)
    given = {"atten_mask": CAUSAL, "sparse_mode": 2}
    whole = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", pse=pse, **given)
    last = pse[:, :, -1024:]
    found = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", pse=last, **given)
    torch.testing.assert_close(found[:3], whole[:3])
    q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
    ends = [40, 1040]
    joined = torch_npu.npu_fusion_attention(
        *(q, k, v, 2, "TND"),
        pse=last,
        actual_seq_qlen=ends,
        actual_seq_kvlen=ends,
        **given,
    )[0]
    for own in (slice(0, 40), slice(40, 1040)):
        parts = [t[own].transpose(0, 1).unsqueeze(0) for t in (q, k, v)]
        n = own.stop - own.start
        hidden = column[:n] > row[:n]
        wanted = reference(*parts, 1.0, hidden, pse[:, :, :n, :n])[0]
        torch.testing.assert_close(
            joined[own].double(), wanted[0].transpose(0, 1), atol=1e-5, rtol=1e-5
        )


def philox(counter, seed):
    """The four words of Philox 4x32-10, in Python's integers."""
    words = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (two >> 32) ^ words[1] ^ keys[0],
            two & 0xFFFFFFFF,
            (one >> 32) ^ words[3] ^ keys[1],
            one & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words


def test_bits_of_a_dropout() -> None:
    # The example of the authors' own test vectors: counter and key of zeros.
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    seed, offset = 2**40 + 17, 2**32 - 2
    mask = torch_npu._npu_dropout_gen_mask(torch.ones(1), [5, 37], 0.3, seed, offset)
    assert (mask.dtype, mask.shape) == (torch.uint8, (32,))
    words = [w for n in range(47) for w in philox(offset + n, seed)][:185]
    wanted = [word < 0.7 * 2**32 for word in words]
    bits = [bool(int(byte) >> n & 1) for byte in mask for n in range(8)]
    assert bits == wanted + [False] * 71
    with pytest.raises(RuntimeError, match="p must be from 0 to 1, got 2"):
        torch_npu._npu_dropout_gen_mask(torch.ones(1), [4], 2.0, 0, 0)


@pytest.mark.parametrize("layout", ["BNSD", "BSH", "TND"])
def test_dropout(layout) -> None:
    q, k, v = heads(groups=1)
    options = {}
    if layout == "TND":
        q, k, v = (t[0].transpose(0, 1) for t in (q, k, v))
        options = {"actual_seq_qlen": [2, 5], "actual_seq_kvlen": [3, 7]}
        shapes = [(1, N, 2, 3), (1, N, 3, 4)]
    else:
        shapes = [(B, N, S, T)]
    numels = sum(torch.Size(shape).numel() for shape in shapes)
    seed, keep = 99, 0.8
    mask = torch_npu._npu_dropout_gen_mask(q, [numels], 1 - keep, seed, 4)
    bits = [bool(int(byte) >> n & 1) for byte in mask for n in range(8)]
    kept = torch.tensor(bits[:numels]).split([torch.Size(s).numel() for s in shapes])
    given = [t if layout == "TND" else laid_out(t, layout) for t in (q, k, v)]

    def function(q, k, v):
        return torch_npu.npu_fusion_attention(
            *(q, k, v, N, layout),
            scale=0.5,
            keep_prob=keep,
            seed=seed,
            offset=4,
            **options,
        )

    run = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True)
    for found in (function(*given), run(*given)):
        assert found[4:] == (seed, 4, numels)
        if layout == "TND":
            pieces = zip(q.split([2, 3]), k.split([3, 4]), v.split([3, 4]))
            work = [[t.transpose(0, 1).unsqueeze(0) for t in piece] for piece in pieces]
        else:
            work = [(q, k, v)]
        made = []
        for (a, b, c), stays, shape in zip(work, kept, shapes):
            scores = (a.double() @ b.double().transpose(-1, -2)) * 0.5
            weights = torch.softmax(scores, -1) * stays.reshape(shape) / keep
            made.append(weights @ c.double())
        wanted = (
            torch.cat([m[0].transpose(0, 1) for m in made])
            if layout == "TND"
            else laid_out(made[0], layout)
        )
        torch.testing.assert_close(found[0].double(), wanted, atol=1e-5, rtol=1e-5)
    same = torch_npu.npu_fusion_attention(
        *(*given, N, layout),
        scale=0.5,
        keep_prob=keep,
        dropout_mask=mask,
        seed=seed,
        **options,
    )
    torch.testing.assert_close(same[0], function(*given)[0])


def test_dropouts_without_a_seed() -> None:
    """PyTorch's generator gives the seed, and the next call has another."""
    parts = heads()
    call = torch_npu.npu_fusion_attention
    torch.manual_seed(3)
    first, second = (call(*parts, N, "BNSD", keep_prob=0.5) for _ in range(2))
    assert first[4] != second[4]
    assert not torch.equal(first[0], second[0])
    again = call(*parts, N, "BNSD", keep_prob=0.5, seed=first[4])
    torch.testing.assert_close(again[0], first[0])
    torch.manual_seed(3)
    assert call(*parts, N, "BNSD", keep_prob=0.5)[4] == first[4]


def test_dropout_in_graphs_and_its_gradient() -> None:
    def function(q, k, v):
        return torch_npu.npu_fusion_attention_v3(
            *(q, k, v, N, "BNSD"), scale=0.5, keep_prob=0.6
        )

    backend = torchair.get_npu_backend()
    parts = heads()
    run = torch.compile(function, backend=backend, fullgraph=True)
    for results in (function(*parts), run(*parts), run(*parts)):
        seed = int(results[4])
        wanted = torch_npu.npu_fusion_attention(
            *(*parts, N, "BNSD"), scale=0.5, keep_prob=0.6, seed=seed
        )
        torch.testing.assert_close(results[0], wanted[0])
    grown = [t.clone().requires_grad_() for t in parts]
    torch_npu.npu_fusion_attention(*grown, N, "BNSD", keep_prob=0.6, seed=5)[
        0
    ].sum().backward()
    wide = [t.double().requires_grad_() for t in parts]
    bits = torch_npu._npu_dropout_gen_mask(parts[0], [B * N * S * T], 0.4, 5, 0)
    kept = ((bits.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1).flatten()
    kept = kept[: B * N * S * T].reshape(B, N, S, T)
    k, v = (t.repeat_interleave(N // wide[1].shape[1], 1) for t in wide[1:])
    weights = torch.softmax(wide[0] @ k.transpose(-1, -2), -1)
    (weights * kept / 0.6 @ v).sum().backward()
    for one, other in zip(grown, wide):
        torch.testing.assert_close(one.grad.double(), other.grad, atol=1e-4, rtol=1e-4)


MODES = {"atten_mask": CAUSAL, "input_layout": "BNSD"}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"keep_prob": 0.0}, RuntimeError, "keep_prob must be above 0"),
        ({"padding_mask": torch.ones(1)}, NotImplementedError, "padding_mask"),
        (MODES | {"sparse_mode": 6}, RuntimeError, "sparse_mode 6 needs prefix"),
        (MODES | {"sparse_mode": 7}, RuntimeError, "BNSD has no sparse_mode 7"),
        (
            MODES | {"sparse_mode": 6, "prefix": [3]},
            RuntimeError,
            r"prefix must have 2 numbers, got 1",
        ),
        (
            MODES | {"sparse_mode": 6, "prefix": [1, 3]},
            RuntimeError,
            r"prefix must be from 2 to 7, got \[1, 3\]",
        ),
        (
            {"dropout_mask": torch.zeros(4, dtype=torch.uint8), "keep_prob": 0.5},
            RuntimeError,
            r"dropout_mask must have shape \(48,\), got \(4,\)",
        ),
        ({"softmax_layout": "NTD"}, RuntimeError, "TND or empty, got 'NTD'"),
        ({"sink": torch.ones(9)}, RuntimeError, "sink must have shape"),
        ({"prefix": [1]}, RuntimeError, "prefix is for sparse_mode 5 and 6"),
        ({"pse": torch.ones(1, 4, 3, 7)}, RuntimeError, r"got \(1, 4, 3, 7\)"),
        ({"input_layout": "NBSD"}, RuntimeError, "no such input_layout: 'NBSD'"),
        (
            {"input_layout": "BSH"},
            RuntimeError,
            "query in BSH must have 3 dimensions, got 4",
        ),
        ({"input_layout": "TND"}, RuntimeError, "TND needs actual_seq_qlen"),
    ],
)
def test_what_is_refused(options, error, text) -> None:
    with pytest.raises(error, match=text):
        torch_npu.npu_fusion_attention(
            *heads(), N, **({"input_layout": "BNSD"} | options)
        )
