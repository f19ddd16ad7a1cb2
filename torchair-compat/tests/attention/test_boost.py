"""Attentions of the transformer boost library equal loops in float64, in graphs and outside;
NaN after the lengths of sequences reaches nothing."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

HEADS, KV, WIDTH, VALUES, PAGE, SCALE = 4, 2, 16, 32, 4, 0.3
QUERIES, KEYS = [2, 3, 1], [9, 3, 6]
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def near(dtype):
    return {F16: (4e-3, 4e-3), BF16: (4e-2, 2e-2), F32: (1e-5, 1e-5)}[dtype]


def assert_near(found, wanted, dtype=F16) -> None:
    atol, rtol = near(dtype)
    torch.testing.assert_close(found.double(), wanted, atol=atol, rtol=rtol)


def attention(q, k, v, bias=None, causal=False):
    """(tokens, heads, width) of one sequence, in float64, and the log-sum-exp."""
    k, v = (t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = torch.einsum("qnd,knd->nqk", q.double(), k) * SCALE
    if bias is not None:
        scores = scores + bias.double()
    if causal:
        rows, columns = torch.arange(q.shape[0])[:, None], torch.arange(k.shape[0])
        hidden = columns > rows + k.shape[0] - q.shape[0]
        scores = scores.masked_fill(hidden, -torch.inf)
    out = torch.einsum("nqk,knd->qnd", scores.softmax(-1), v)
    return out, torch.logsumexp(scores, -1)


def paged(parts, nz=False):
    """Pages of the sequences, NaN where there is no key, and their table."""
    pages = [-(-p.shape[0] // PAGE) for p in parts]
    table = torch.full((len(parts), max(pages)), 0, dtype=torch.int32)
    order = (torch.randperm(sum(pages)) + 1).tolist()
    cache = torch.full((sum(pages) + 1, PAGE, *parts[0].shape[1:]), torch.nan)
    cache = cache.to(parts[0].dtype)
    for number, part in enumerate(parts):
        for page in range(pages[number]):
            table[number, page] = order.pop()
            rows = part[page * PAGE : (page + 1) * PAGE]
            cache[int(table[number, page]), : rows.shape[0]] = rows
    if nz:
        cache = cache.flatten(2).unflatten(2, (-1, 16)).transpose(1, 2).contiguous()
    return cache, table


def sequences(dtype, queries=QUERIES, keys=KEYS):
    make = lambda n, h, w: torch.randn(n, h, w).to(dtype)
    return (
        [make(n, HEADS, WIDTH) for n in queries],
        [make(n, KV, WIDTH) for n in keys],
        [make(n, KV, VALUES) for n in keys],
    )


def tables(keys, values, nz):
    """Both caches of one table."""
    state = torch.get_rng_state()
    key_cache, table = paged(keys, nz)
    torch.set_rng_state(state)
    value_cache, same = paged(values, nz)
    assert torch.equal(table, same)
    return key_cache, value_cache, table


@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_paged_attention(dtype, nz) -> None:
    queries, keys, values = sequences(dtype, [1, 1, 1])
    key_cache, value_cache, table = tables(keys, values, nz)
    lens = torch.tensor(KEYS, dtype=torch.int32)
    query, out = torch.cat(queries), torch.zeros(3, HEADS, VALUES, dtype=dtype)

    def function(query, key_cache, value_cache, table, lens, out):
        torch_npu._npu_paged_attention(
            query=query,
            key_cache=key_cache,
            value_cache=value_cache,
            num_kv_heads=KV,
            num_heads=HEADS,
            scale_value=SCALE,
            block_table=table,
            context_lens=lens,
            out=out,
            workspace=None,
        )
        return out + 0

    given = query, key_cache, value_cache, table, lens, out
    atol, rtol = near(dtype)
    both(function, *given, atol=atol, rtol=rtol, equal_nan=True)
    wanted = [attention(*parts)[0] for parts in zip(queries, keys, values)]
    assert_near(out, torch.cat(wanted), dtype)
    workspace = torch_npu._npu_paged_attention_get_workspace(
        query, key_cache, value_cache, KV, HEADS, SCALE, table, lens, out
    )
    assert workspace.numel() == 0


def test_paged_attention_of_latent_keys() -> None:
    queries, _, _ = sequences(F16, [1, 1, 1])
    keys = [torch.randn(n, 1, WIDTH).half() for n in KEYS]
    cache, table = paged(keys)
    out = torch.zeros(3, HEADS * 8, dtype=F16)
    torch_npu._npu_paged_attention_mla(
        torch.cat(queries), cache, 1, HEADS, SCALE, table, torch.tensor(KEYS), 8, out
    )
    wanted = [attention(q, k, k[..., :8])[0] for q, k in zip(queries, keys)]
    assert_near(out, torch.cat(wanted).flatten(1))


def blocks(mask):
    """A mask in FRACTAL_NZ, of a multiple of 16 columns."""
    whole = torch.nn.functional.pad(mask, (0, -mask.shape[1] % 16))
    return whole.unflatten(1, (-1, 16)).transpose(0, 1).unsqueeze(0).contiguous()


@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("form", ["splitfuse", "splitfuse_v2", "qlens"])
def test_packed_tokens_and_pages(form, nz) -> None:
    queries, keys, values = sequences(F16)
    key_cache, value_cache, table = tables(keys, values, nz)
    lens, sizes = torch.tensor(KEYS, dtype=torch.int32), torch.tensor(QUERIES)
    query = torch.cat(queries)
    out = torch.zeros(query.shape[0], HEADS, VALUES, dtype=F16)
    biases = [torch.randn(q, k) for q, k in zip(QUERIES, KEYS)]
    rows = [torch.nn.functional.pad(b, (0, max(KEYS) - b.shape[1])) for b in biases]
    mask = torch.cat(rows) if form == "splitfuse" else torch.ones(16, 16).triu(1)
    mask = (blocks(mask) if nz else mask).half()
    caches = key_cache, value_cache

    def function(query, key_cache, value_cache, table, lens, mask, sizes, out):
        caches = query, key_cache, value_cache, table
        heads = KV, HEADS, SCALE
        if form == "qlens":
            torch_npu._npu_flash_attention_qlens(
                *caches, mask, sizes, lens, *heads, out
            )
        else:
            operator = getattr(torch_npu, f"_npu_paged_attention_{form}")
            operator(*caches, lens, mask, sizes, *heads, out=out)
        return out + 0

    given = query, *caches, table, lens, mask, sizes, out
    both(function, *given, atol=4e-3, rtol=4e-3, equal_nan=True)
    causal = form != "splitfuse"
    wanted = [
        attention(*parts, bias.half() if not causal else None, causal)[0]
        for *parts, bias in zip(queries, keys, values, biases)
    ]
    assert_near(out, torch.cat(wanted))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize("form", ["", "_v3", "_unpad", "_unpad_v2"])
def test_packed_sequences(form, dtype, joined) -> None:
    queries, keys, values = sequences(dtype, KEYS)
    mask = torch.randn(16, 16) if form == "" else torch.ones(16, 16).triu(1)
    masks = [(mask.to(dtype),), (blocks(mask).to(dtype),)]
    masks = [()] if "unpad" in form else masks
    operands = [torch.cat(part) for part in (queries, keys, values)]
    operands = [t.flatten(1) if joined else t for t in operands]
    sizes = torch.tensor(KEYS, dtype=torch.int32)
    operator = getattr(torch_npu, f"_npu_flash_attention{form}")
    more = {"_v3": {"mask_type": 3}, "_unpad_v2": {"kernel_type": 2}}.get(form, {})
    wanted = torch.cat(
        [
            attention(
                *parts,
                mask[: len(parts[0]), : len(parts[0])] if not form else None,
                form == "_v3",
            )[0]
            for parts in zip(queries, keys, values)
        ]
    )
    for given in masks:
        out = torch.zeros(sum(KEYS), HEADS, VALUES, dtype=dtype)

        def function(*tensors):
            *first, sizes, out = tensors
            operator(*first, sizes, SCALE, HEADS, KV, **more, out=out)
            return out + 0

        atol, rtol = near(dtype)
        both(function, *operands, *given, sizes, out, atol=atol, rtol=rtol)
        assert_near(out, wanted, dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_ring(dtype, causal) -> None:
    """Two parts of the keys, joined, equal all keys."""
    rope = 4
    sizes = [4, 2, 1]
    queries = [torch.randn(n, HEADS, WIDTH + rope).to(dtype) for n in sizes]
    first, second = (
        [torch.randn(n, KV, WIDTH + rope).to(dtype) for n in lens]
        for lens in ([5, 1, 3], sizes)
    )
    values = [
        [torch.randn(k.shape[0], KV, 8).to(dtype) for k in p] for p in (first, second)
    ]
    mask = torch.ones(16, 16, dtype=dtype).triu(1)

    def ring(keys, values, lens, more):
        parts = [torch.cat(x).split([WIDTH, rope], -1) for x in (queries, keys)]
        operands = [t.contiguous() for pair in parts for t in pair]
        return torch_npu.atb.npu_ring_mla(
            *operands, torch.cat(values), mask, lens, HEADS, KV, qk_scale=SCALE, **more
        )

    both_lens = torch.tensor([sizes, [5, 1, 3]], dtype=torch.int32)
    modes = {"input_layout": "type_bsnd", "kernel_type": "kernel_type_high_precision"}
    out, lse = ring(first, values[0], both_lens, modes | {"mask_type": "no_mask"})
    for number, part in enumerate(out.split(sizes)):
        wanted, sums = attention(queries[number], first[number], values[0][number])
        assert_near(part, wanted, dtype)
        start = sum(sizes[:number])
        assert_near(lse[:, start : start + sizes[number]], sums, dtype)
    before = out.clone(), lse.clone()
    more = modes | {
        "mask_type": "mask_type_triu" if causal else "no_mask",
        "calc_type": "calc_type_default",
        "pre_out": before[0],
        "prev_lse": before[1],
    }
    lens = torch.tensor(sizes, dtype=torch.int32)
    out, lse = ring(second, values[1], lens, more)
    for number, part in enumerate(out.split(sizes)):
        keys = torch.cat([first[number], second[number]])
        whole = torch.cat([values[0][number], values[1][number]])
        wanted, _ = attention(queries[number], keys, whole, causal=causal)
        assert_near(part, wanted, BF16 if dtype == BF16 else F16)
    again = torch.empty_like(out), torch.empty_like(lse)
    parts = [torch.cat(x).split([WIDTH, rope], -1) for x in (queries, second)]
    operands = [t.contiguous() for pair in parts for t in pair]
    found = torch.ops.atb.npu_ring_mla.out(
        *operands,
        torch.cat(values[1]),
        mask,
        lens,
        HEADS,
        KV,
        qk_scale=SCALE,
        **more,
        output=again[0],
        softmax_lse=again[1],
    )
    assert torch.equal(again[0], out) and torch.equal(again[1], lse)
    assert torch.equal(found[0], out)


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize("count", [1, 3])
def test_attention_update(count, dtype) -> None:
    sums = [torch.randn(6) for _ in range(count)]
    parts = [torch.randn(6, 8).to(dtype) for _ in range(count)]
    sums[0][2] = -torch.inf
    if count > 1:  # a part without keys may have any values
        parts[0][2] = torch.nan
    for part, total in zip(parts, sums):
        total[5] = -torch.inf
        part[5] = 0
    out, total = both(
        lambda *t: torch_npu.npu_attention_update(list(t[:count]), list(t[count:]), 1),
        *(*sums, *parts),
        atol=near(dtype)[0],
        rtol=near(dtype)[1],
        equal_nan=True,
    )
    table = torch.stack(sums).double()
    wanted_sum = torch.logsumexp(table, 0)
    shares = (table - wanted_sum).exp().nan_to_num(0.0)
    wanted = sum(
        s.unsqueeze(-1) * p.double().nan_to_num(0.0) for s, p in zip(shares, parts)
    )
    if count == 1:
        wanted[2] = 0
    assert_near(out, wanted, dtype)
    torch.testing.assert_close(total.double(), wanted_sum, atol=1e-5, rtol=1e-5)
    assert torch_npu.npu_attention_update(sums, parts, 0)[1].numel() == 0


def test_updates_that_do_not_fit() -> None:
    sums, part = torch.zeros(4), torch.zeros(4, 8)
    for given, text in (
        (([sums], [part], 2), "update_type must be 0 or 1, got 2"),
        (([sums], [part, part], 0), "must both have 1 to 16 parts, got 1 and 2"),
        (([sums[:3]], [part], 0), r"lse\[0\] must have shape \(4,\)"),
        (([sums], [part[:3]], 0), r"lse\[0\] must have shape \(3,\)"),
        (([sums.half()], [part], 0), r"lse\[0\] must be float32"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_attention_update: .*{text}"):
            torch_npu.npu_attention_update(*given)


def test_a_captured_attention_reads_new_lengths() -> None:
    """A replay reads the lengths of the tensor, and a group of tasks takes new ones."""
    queries, keys, values = sequences(F16, [1, 1, 1])
    key_cache, value_cache, table = tables(keys, values, False)
    lens = torch.tensor([3, 2, 1], dtype=torch.int32)
    out = torch.zeros(3, HEADS, VALUES, dtype=F16)
    stream = torch.npu.current_stream()
    query, others = torch.cat(queries), torch.tensor([1, 3, 2])

    def call(lens):
        torch_npu._npu_paged_attention(
            query,
            key_cache,
            value_cache,
            KV,
            HEADS,
            SCALE,
            table,
            lens,
            out=out,
            workspace=None,
        )

    captured = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(captured):
        torch.npu.graph_task_group_begin(stream)
        call(lens)
        handle = torch.npu.graph_task_group_end(stream)

    def check(counts):
        captured.replay()
        wanted = [
            attention(q, k[:n], v[:n])[0]
            for q, k, v, n in zip(queries, keys, values, counts)
        ]
        assert_near(out, torch.cat(wanted))

    check([3, 2, 1])
    lens.copy_(torch.tensor(KEYS))
    check(KEYS)
    torch.npu.graph_task_update_begin(stream, handle)
    call(others)
    torch.npu.graph_task_update_end(stream)
    check([1, 3, 2])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"block_table": torch.zeros(2, 3).int()}, "a row for each of context_lens"),
        ({"context_lens": torch.zeros(3)}, "context_lens must be int32, int64"),
        ({"context_lens": torch.full((3,), 99)}, "must be from 0 to 12, got"),
        ({"query": torch.ones(3, 64)}, "query must have 3 dimensions, got 2"),
        (
            {"num_kv_heads": 3},
            "key_cache must be .blocks, block_size, 3, d., or in blocks",
        ),
        ({"out": torch.ones(3)}, "out must be torch.float32 of 192 elements"),
    ],
)
def test_errors(change, text) -> None:
    cache = torch.zeros(5, PAGE, KV, WIDTH)
    given = {
        "query": torch.ones(3, HEADS, WIDTH),
        "key_cache": cache,
        "value_cache": cache,
        "num_kv_heads": KV,
        "num_heads": HEADS,
        "scale_value": SCALE,
        "block_table": torch.zeros(3, 3, dtype=torch.int32),
        "context_lens": torch.ones(3, dtype=torch.int32),
        "out": torch.ones(3, HEADS, WIDTH),
    } | change
    with pytest.raises(
        (RuntimeError, ValueError), match=f"_npu_paged_attention: .*{text}"
    ):
        torch_npu._npu_paged_attention(**given)


def test_modes_that_do_not_exist() -> None:
    x, sizes = torch.ones(3, HEADS, WIDTH), torch.tensor([3])
    mask, out = torch.ones(16, 16), torch.ones(3, HEADS, WIDTH)
    numbers = SCALE, HEADS, HEADS
    for name, given, text in (
        ("_unpad_v2", {"kernel_type": 1}, "kernel_type must be 0 or 2, got 1"),
        ("_v3", {"mask_type": 1}, "mask_type must be 3, got 1"),
    ):
        operator = getattr(torch_npu, f"_npu_flash_attention{name}")
        first = (x, x, x, sizes) if "unpad" in name else (x, x, x, mask, sizes)
        with pytest.raises(RuntimeError, match=text):
            operator(*first, *numbers, **given, out=out)
    with pytest.raises(RuntimeError, match="mask of 2 places does not cover seq_len 3"):
        torch_npu._npu_flash_attention(x, x, x, mask[:2, :2], sizes, *numbers, out)
    with pytest.raises(RuntimeError, match="mask_type must be one of .*'triangle'"):
        torch_npu.atb.npu_ring_mla(
            x, x, x, x, x, mask, sizes, HEADS, HEADS, mask_type="triangle"
        )
    with pytest.raises(
        RuntimeError, match="calc_type_default needs pre_out and prev_lse"
    ):
        torch_npu.atb.npu_ring_mla(
            x, x, x, x, x, mask, sizes, HEADS, HEADS, calc_type="calc_type_default"
        )
