"""What a length or a mask hides from attention is not touched: NaN and infinities there do
not reach the result, in eager code and in graphs."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
import torchair
from pictures import compiled

B, N, KV, D, SIZE = 2, 4, 2, 32, 16
LENGTHS = [5, 19]  # of keys
BAD = [math.nan, math.inf, -math.inf]


def rows(*shape, kind=torch.float32):
    return torch.randn(*shape).to(kind)


def cache(kind, bad):
    """(batch, heads, 2 * SIZE, D), with bad values after the lengths."""
    made = torch.randn(B, KV, 2 * SIZE, D, generator=torch.Generator().manual_seed(5))
    for one, length in zip(made, LENGTHS):
        one[:, length:] = bad
    return made.to(kind)


def pages(states, bad):
    """The states in blocks (number, SIZE, heads * D), and the table of their places. A
    block that no sequence has is bad."""
    table = torch.tensor([[3, 1], [0, 4]], dtype=torch.int32)
    blocks = torch.full((5, SIZE, KV * D), bad, dtype=states.dtype)
    flat = states.transpose(1, 2).flatten(2)
    for one, places in zip(flat, table):
        blocks[places.long()] = one.reshape(2, SIZE, -1)
    return blocks, table


def plain(q, k, v, **more):
    return torch_npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=N, num_key_value_heads=KV, input_layout="BNSD", **more
    )[0]


def first(q, k):
    return plain(q, k, k, scale=0.2, actual_seq_lengths_kv=LENGTHS)


def with_sums(q, k):
    more = {"actual_seq_lengths_kv": LENGTHS, "softmax_lse_flag": True}
    return plain(q, k, k, scale=0.2, **more)


def paged(q, k, table):
    more = {"actual_seq_lengths_kv": LENGTHS, "block_table": table, "block_size": SIZE}
    return plain(q, k, k, scale=0.2, **more)


def second(q, k, table):
    """All sequences one after the other, in pages."""
    tokens = q.transpose(1, 2).flatten(0, 1)
    return torch_npu.npu_fused_infer_attention_score_v2(
        *(tokens, k, k),
        num_query_heads=N,
        num_key_value_heads=KV,
        input_layout="TND",
        softmax_scale=0.2,
        actual_seq_qlen=[q.shape[2], 2 * q.shape[2]],
        actual_seq_kvlen=LENGTHS,
        block_table=table,
        block_size=SIZE,
    )[0]


def with_sinks(q, k):
    return torch_npu.npu_fused_infer_attention_score_v2(
        *(q, k, k),
        num_query_heads=N,
        num_key_value_heads=KV,
        input_layout="BNSD",
        softmax_scale=0.2,
        actual_seq_kvlen=LENGTHS,
        learnable_sink=torch.ones(N),
    )[0]


def prompt(q, k):
    return torch_npu.npu_prompt_flash_attention(
        *(q, k, k),
        num_heads=N,
        num_key_value_heads=KV,
        input_layout="BNSD",
        scale_value=0.2,
        actual_seq_lengths_kv=LENGTHS,
    )


def new_token(q, k):
    return torch_npu.npu_incre_flash_attention(
        *(q[:, :, :1], k, k),
        num_heads=N,
        num_key_value_heads=KV,
        input_layout="BNSD",
        scale_value=0.2,
        actual_seq_lengths=LENGTHS,
    )


def lengths_in_tensors(q, k):
    """In graphs only."""
    return torchair.ops.npu_fused_infer_attention_score(
        *(q, k, k),
        num_heads=N,
        num_key_value_heads=KV,
        input_layout="BNSD",
        scale=0.2,
        actual_seq_lengths_kv=torch.tensor(LENGTHS),
    )[0]


def masked(q, k):
    """A mask of both sequences hides the same keys."""
    places = torch.arange(2 * SIZE)
    mask = (places >= torch.tensor(LENGTHS).reshape(B, 1, 1, 1)).expand(
        B, 1, q.shape[2], 2 * SIZE
    )
    return plain(q, k, k, scale=0.2, atten_mask=mask)


FORMS = [first, with_sums, paged, second, with_sinks, prompt, new_token, masked]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("form", [*FORMS, lengths_in_tensors])
def test_rows_after_a_length(form, count, kind) -> None:
    q = rows(B, N, count, D, kind=kind)

    def inputs(bad):
        k = cache(kind, bad)
        return (q, *pages(k, bad)) if form in (paged, second) else (q, k)

    graph = compiled(form)
    runs = [graph] if form is lengths_in_tensors else [form, graph]
    wanted = runs[0](*inputs(0.0))
    assert torch.isfinite(wanted).all()
    for bad in (0.0, *BAD):
        for run in runs:
            found = run(*inputs(bad))
            torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)


OTHERS = [*((form, "aot_eager") for form in FORMS), (paged, "inductor")]


@pytest.mark.parametrize(("form", "backend"), OTHERS)
def test_other_backends(form, backend) -> None:
    """A trace for another backend has PyTorch's own attention, which reads every key."""
    q, k = rows(B, N, 3, D), cache(torch.float32, 0.0)
    wanted = form(q, *pages(k, 0.0)) if form in (paged, second) else form(q, k)
    torch._dynamo.reset()
    graph = torch.compile(form, backend=backend, fullgraph=True)
    for bad in BAD:
        k = cache(torch.float32, bad)
        found = graph(q, *(pages(k, bad) if form in (paged, second) else (k,)))
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_seen_values_of_other_backends() -> None:
    """A key that a row sees makes it NaN, and no other row."""
    q, k = rows(B, N, 40, D), rows(B, KV, 40, D)
    v = k.clone()
    v[:, :, -1] = math.nan
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1)

    def function(q, k, v):
        return plain(q, k, v, scale=0.2, sparse_mode=3, atten_mask=mask)

    torch._dynamo.reset()
    found = torch.compile(function, backend="aot_eager", fullgraph=True)(q, k, v)
    torch.testing.assert_close(found, function(q, k, v), equal_nan=True)
    assert found[:, :, -1].isnan().all() and found[:, :, :-1].isfinite().all()


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_rows_before_a_token(kind, bad) -> None:
    """Causal: only the last row sees the last key."""
    count = 40
    q, k = rows(B, N, count, D, kind=kind), rows(B, KV, count, D, kind=kind)
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    v = k.clone()
    v[:, :, -1] = bad

    def function(q, k, v):
        return plain(q, k, v, scale=0.2, sparse_mode=3, atten_mask=mask)

    wanted = function(q, k, k)
    for run in (function, compiled(function)):
        found = run(q, k, v)
        close = {"atol": 2e-2, "rtol": 2e-2}
        torch.testing.assert_close(found[:, :, :-1], wanted[:, :, :-1], **close)
        assert not torch.isfinite(found[:, :, -1]).any()


@pytest.mark.parametrize("bad", BAD)
def test_other_sequences(bad) -> None:
    """Without a batch, a bad sequence leaves the others alone."""
    q, k = rows(12, N, D), rows(12, KV, D)
    v = k.clone()
    v[4:8] = bad

    def function(q, k, v):
        return torch_npu.npu_fused_infer_attention_score(
            *(q, k, v),
            num_heads=N,
            num_key_value_heads=KV,
            input_layout="TND",
            actual_seq_lengths=[4, 8, 12],
            actual_seq_lengths_kv=[4, 8, 12],
        )[0]

    wanted = function(q, k, k)
    for run in (function, compiled(function)):
        found = run(q, k, v)
        for part in (slice(0, 4), slice(8, 12)):
            torch.testing.assert_close(found[part], wanted[part])
        assert not torch.isfinite(found[4:8]).any()
