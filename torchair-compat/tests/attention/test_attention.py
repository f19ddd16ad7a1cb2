"""npu_fused_infer_attention_score equals a loop over sequences in float64."""

from __future__ import annotations

import itertools

import pytest
import torch

import anabranch
import torch_npu
import torchair
from pictures import compiled
from torchair import ops

NEAR = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}
op = torch_npu.npu_fused_infer_attention_score


def one(q, k, v, scale, sees=None, shift=None):
    """The result (N, S, D) and the log-sum-exp of one sequence. `sees(row, column)` is the
    mask."""
    group = q.shape[0] // k.shape[0]
    k, v = (t.double().repeat_interleave(group, 0) for t in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * scale
    if shift is not None:
        scores = scores + shift
    if sees is not None:
        for i, j in itertools.product(*map(range, scores.shape[1:])):
            if not sees(i, j):
                scores[:, i, j] = float("-inf")
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return weights @ v, torch.logsumexp(scores, -1, keepdim=True)


def draw(b=2, n=4, kv=4, s=5, t=7, d=8, kind=torch.float32):
    shapes = (b, n, s, d), (b, kv, t, d), (b, kv, t, d)
    return [torch.randn(shape).to(kind) for shape in shapes]


def check(found, expected, kind=torch.float32) -> None:
    torch.testing.assert_close(found.double(), expected.double(), **NEAR[kind])


def laid(tensor, layout):
    return {
        "BNSD": lambda t: t,
        "BSND": lambda t: t.transpose(1, 2),
        "BSH": lambda t: t.transpose(1, 2).flatten(2),
        "NBSD": lambda t: t.transpose(0, 1),
    }[layout](tensor)


@pytest.mark.parametrize("kind", NEAR)
@pytest.mark.parametrize(
    "layout",
    ["BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD"],
)
def test_layouts_with_a_batch(kind, layout) -> None:
    q, k, v = draw(kv=2, kind=kind)
    into, _, out = layout.partition("_")
    options = {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.3}
    options["input_layout"] = layout

    def function(q, k, v):
        return op(q, k, v, **options)[0]

    given = [laid(t, into) for t in (q, k, v)]
    expected = torch.stack([one(*row, 0.3)[0] for row in zip(q, k, v)])
    check(function(*given), laid(expected, out or into), kind)
    with torch.no_grad():
        found = compiled(function)(*given)
    assert found.dtype == kind
    check(found, laid(expected, out or into), kind)
    assert anabranch.counters.eager_graphs == 0


def sequences(lengths, states):
    """Cuts (N, T, D) into pieces of these lengths."""
    return torch.split(states, lengths, 1)


@pytest.mark.parametrize("layout", ["TND", "NTD", "NTD_TND", "TND_NTD"])
@pytest.mark.parametrize("mode", [0, 3])
def test_layouts_of_sequences_one_after_another(layout, mode) -> None:
    rows, columns = [3, 1, 4], [5, 1, 6]
    q, k, v = (
        torch.randn(n, sum(sizes), 8)
        for n, sizes in ((4, rows), (2, columns), (2, columns))
    )
    ends = [[sum(s[: i + 1]) for i in range(3)] for s in (rows, columns)]
    parts = [
        one(
            *(a, b, c, 1.0),
            None if mode == 0 else lambda i, j, d=b.shape[1] - a.shape[1]: j <= i + d,
        )[0]
        for a, b, c in zip(
            sequences(rows, q), sequences(columns, k), sequences(columns, v)
        )
    ]
    expected = torch.cat(parts, 1)
    into, _, out = layout.partition("_")
    given = [t.transpose(0, 1) if into == "TND" else t for t in (q, k, v)]
    found = op(
        *given,
        num_heads=4,
        num_key_value_heads=2,
        input_layout=layout,
        sparse_mode=mode,
        actual_seq_lengths=ends[0],
        actual_seq_lengths_kv=ends[1],
    )[0]
    check(found.transpose(0, 1) if (out or into) == "TND" else found, expected)


MODES = [
    ({"sparse_mode": 2}, lambda i, j: j <= i),
    ({"sparse_mode": 3}, lambda i, j: j <= i + 2),
    (
        {
            "pre_tokens": 1,
            "next_tokens": 2,
            "atten_mask": torch.zeros(5, 7, dtype=torch.bool),
        },
        lambda i, j: i - 1 <= j <= i + 2,
    ),
    ({"pre_tokens": 1, "next_tokens": 2}, lambda i, j: True),
    (
        {"sparse_mode": 4, "pre_tokens": 1, "next_tokens": 0},
        lambda i, j: i + 1 <= j <= i + 2,
    ),
]


@pytest.mark.parametrize(("options", "sees"), MODES)
def test_bands(options, sees) -> None:
    q, k, v = draw()
    found = op(q, k, v, num_heads=4, input_layout="BNSD", **options)[0]
    check(found, torch.stack([one(*row, 1.0, sees)[0] for row in zip(q, k, v)]))


@pytest.mark.parametrize("dims", [2, 3, 4])
@pytest.mark.parametrize("flag", [False, True])
def test_masks_and_log_sums(dims, flag) -> None:
    q, k, v = draw()
    mask = torch.rand(5, 7) > 0.6
    mask[:, 0] = False
    mask[2] = True  # a row that sees no key
    given = mask.expand((2, 1, 5, 7)[4 - dims :])
    found, lse = op(
        *(q, k, v),
        num_heads=4,
        input_layout="BNSD",
        atten_mask=given,
        softmax_lse_flag=flag,
    )
    rows = [one(*row, 1.0, lambda i, j: not mask[i, j]) for row in zip(q, k, v)]
    check(found, torch.stack([row for row, _ in rows]))
    if flag:
        assert (lse.dtype, lse.shape) == (torch.float32, (2, 4, 5, 1))
        check(lse, torch.stack([sums for _, sums in rows]))
    else:
        assert torch.equal(lse, torch.zeros(1))


def test_lengths_leave_rows_and_columns_out() -> None:
    q, k, v = draw()
    rows, columns = [3, 5], [7, 2]

    def function(q, k, v):
        return op(
            *(q, k, v),
            num_heads=4,
            input_layout="BNSD",
            actual_seq_lengths=rows,
            actual_seq_lengths_kv=columns,
        )[0]

    expected = torch.zeros(2, 4, 5, 8)
    for i, (r, c) in enumerate(zip(rows, columns)):
        expected[i, :, :r] = one(q[i, :, :r], k[i, :, :c], v[i, :, :c], 1.0)[0]
    check(function(q, k, v), expected)
    with torch.no_grad():
        check(compiled(function)(q, k, v), expected)


@pytest.mark.parametrize("dims", [3, 4])
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_pages(dims, layout) -> None:
    q, k, v = draw(s=1, t=8)
    table = torch.tensor([[3, 0], [2, 1]], dtype=torch.int32)
    lengths = [7, 4]
    pages = []
    for states in (k, v):
        page = torch.empty(4, 4, 4, 8)  # number, heads, size, elements
        for row, column in itertools.product(range(2), range(2)):
            start = column * 4
            page[table[row, column]] = states[row, :, start : start + 4]
        pages.append(page if dims == 4 else page.transpose(1, 2).flatten(2))
    more = {}
    given = q
    if layout == "TND":
        given = q.squeeze(2)
        more["actual_seq_lengths"] = [1, 2]
    found = op(
        *(given, *pages),
        num_heads=4,
        input_layout=layout,
        block_table=table,
        block_size=4,
        actual_seq_lengths_kv=lengths,
        **more,
    )[0]
    rows = [one(q[i], k[i, :, :n], v[i, :, :n], 1.0)[0] for i, n in enumerate(lengths)]
    expected = torch.stack(rows)
    check(found, expected.squeeze(2) if layout == "TND" else expected)


def test_a_prefix_that_is_shared() -> None:
    q, k, v = draw()
    before = [torch.randn(1, 4, 6, 8) for _ in range(2)]
    found = op(
        *(q, k, v),
        num_heads=4,
        input_layout="BNSD",
        key_shared_prefix=before[0],
        value_shared_prefix=before[1],
        actual_shared_prefix_len=[3],
        actual_seq_lengths_kv=[7, 4],
    )[0]
    rows = []
    for i, n in enumerate((7, 4)):
        whole = [
            torch.cat((p[0, :, :3], t[i, :, :n]), 1) for p, t in zip(before, (k, v))
        ]
        rows.append(one(q[i], *whole, 1.0)[0])
    check(found, torch.stack(rows))


@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_rotary_parts_and_shifts(layout) -> None:
    q, k, v = draw()
    ropes = torch.randn(2, 4, 5, 2), torch.randn(2, 4, 7, 2)
    shift = torch.randn(1, 4, 5, 7)
    found = op(
        *(laid(t, layout) for t in (q, k, v)),
        num_heads=4,
        input_layout=layout,
        query_rope=laid(ropes[0], layout),
        key_rope=laid(ropes[1], layout),
        pse_shift=shift,
    )[0]
    whole = torch.cat((q, ropes[0]), -1), torch.cat((k, ropes[1]), -1)
    rows = [one(*row, 1.0, None, shift[0])[0] for row in zip(*whole, v)]
    check(found, laid(torch.stack(rows), layout))


def test_lengths_as_tensors_need_one_graph() -> None:
    q, k, v = draw()

    def function(q, k, v, rows, columns):
        return ops.npu_fused_infer_attention_score_v2(
            *(q, k, v),
            num_query_heads=4,
            input_layout="BNSD",
            actual_seq_qlen=rows,
            actual_seq_kvlen=columns,
        )[0]

    run = compiled(function)
    with torch.no_grad():
        for lengths in ((3, 5), (7, 2)), ((1, 2), (3, 4)):
            found = run(q, k, v, *map(torch.tensor, lengths))
            expected = torch_npu.npu_fused_infer_attention_score_v2(
                *(q, k, v),
                num_query_heads=4,
                input_layout="BNSD",
                actual_seq_qlen=lengths[0],
                actual_seq_kvlen=lengths[1],
            )[0]
            check(found, expected)
    assert anabranch.counters.graphs == 1
    with pytest.raises(NotImplementedError, match="is for graphs"):
        ops.npu_fused_infer_attention_score(q, k, v)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"num_heads": 0}, ValueError, "num_heads must be positive, got 0"),
        ({"input_layout": "SBH"}, ValueError, "no such input_layout: 'SBH'"),
        ({"input_layout": "BSH"}, ValueError, "query must have 3 dimensions"),
        ({"num_key_value_heads": 3}, ValueError, "must divide num_heads, got 3"),
        ({"sparse_mode": 5}, ValueError, "no such sparse_mode: 5"),
        ({"sparse_mode": 1}, ValueError, "sparse_mode 1 needs an atten_mask"),
        (
            {"atten_mask": torch.zeros(3, 7, dtype=torch.bool)},
            ValueError,
            r"atten_mask of \(3, 7\) does not cover 5 rows and 7 columns of 2",
        ),
        (
            {"actual_seq_lengths": []},
            ValueError,
            "actual_seq_lengths must have 1 or at least 2 elements, got 0",
        ),
        (
            {"block_table": torch.zeros(2, 1, dtype=torch.int32)},
            ValueError,
            "a block_table needs the lengths of keys and values",
        ),
        (
            {
                "block_table": torch.zeros(2, 1, dtype=torch.int32),
                "actual_seq_lengths_kv": [7, 7],
                "block_size": 128,
            },
            ValueError,
            "block_size is 128, but blocks of key have 7 rows",
        ),
        (
            {"query_rope": torch.zeros(2, 4, 5, 2)},
            ValueError,
            "query_rope and key_rope must both be given, or none",
        ),
        (
            {"quant_scale1": torch.ones(1)},
            ValueError,
            "query of torch.float32 is for a query of int8, not quant_scale1",
        ),
        (
            {"kv_padding_size": torch.ones(1)},
            ValueError,
            "kv_padding_size needs the lengths",
        ),
        (
            {"kv_padding_size": torch.ones(1), "actual_seq_lengths_kv": [7, 7]},
            ValueError,
            "7 rows do not stand before kv_padding_size 1 of 7 rows",
        ),
        (
            {"key_rope_antiquant_scale": torch.ones(1)},
            NotImplementedError,
            r"key_rope_antiquant_scale must be None, got \(1,\)",
        ),
    ],
)
def test_wrong_arguments(options, kind, words) -> None:
    q, k, v = draw()
    with pytest.raises(kind, match=words):
        op(q, k, v, **{"num_heads": 4, "input_layout": "BNSD"} | options)


def test_wrong_sequences() -> None:
    q = torch.randn(3, 4, 8)
    with pytest.raises(ValueError, match="TND needs the lengths"):
        op(q, q, q, num_heads=4, input_layout="TND")
    assert torchair.ops.npu_fused_infer_attention_score is not op
