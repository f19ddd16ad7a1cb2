"""Gated delta rules equal a loop over tokens in float64, in graphs and outside."""

from __future__ import annotations

import itertools

import pytest
import torch

import torch_npu
from agreement import both

KEYS, VALUES, DK, DV = 2, 4, 8, 6
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def tokens(count, dtype):
    """Normalised queries and keys, values, beta and decays."""
    query, key = (
        torch.nn.functional.normalize(torch.randn(count, KEYS, DK), dim=-1).to(dtype)
        for _ in range(2)
    )
    value, beta = torch.randn(count, VALUES, DV).to(dtype), torch.rand(count, VALUES)
    return query, key, value, beta.to(dtype), -torch.rand(count, VALUES)


def rule(states, query, key, value, beta, g, gk, scale):
    """The results of the tokens of one sequence, and the state after each."""
    outs, after = [], []
    state = states.double()
    for t in range(query.shape[0]):
        q, k = (
            x[t].double().repeat_interleave(VALUES // KEYS, 0) for x in (query, key)
        )
        state = state * g[t].double().exp()[:, None, None]
        if gk is not None:
            state = state * gk[t].double().exp()[:, None, :]
        missing = value[t].double() - torch.einsum("hvk,hk->hv", state, k)
        missing = missing * beta[t].double()[:, None]
        state = state + torch.einsum("hv,hk->hvk", missing, k)
        outs.append(torch.einsum("hvk,hk->hv", state, q) * scale)
        after.append(state)
    return outs, after


def near(dtype):
    return (
        {"atol": 3e-2, "rtol": 2e-2} if dtype == BF16 else {"atol": 4e-3, "rtol": 4e-3}
    )


@pytest.mark.parametrize("accepted", [None, [1, 2, 1]])
@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("kept", [F32, BF16])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_recurrent(dtype, kept, by_key, accepted) -> None:
    lengths, slots = [1, 3, 2], [4, 7, 0, 2, 5, 1]
    query, key, value, beta, g = tokens(6, dtype)
    gk = -torch.rand(6, VALUES, DK) if by_key else None
    state = torch.randn(9, VALUES, DV, DK).to(kept)
    told = (
        torch.tensor(lengths, dtype=torch.int32),
        torch.tensor(slots, dtype=torch.int32),
    )
    number = None if accepted is None else torch.tensor(accepted, dtype=torch.int32)
    wanted, blocks, start = [], state.double(), 0
    for row, count in enumerate(lengths):
        own = slice(start, start + count)
        first = start + (0 if accepted is None else accepted[row] - 1)
        first = min(first, start + count - 1)
        rows = (t[own] for t in (query, key, value, beta, g))
        more = None if gk is None else gk[own]
        outs, after = rule(state[slots[first]], *rows, more, DK**-0.5)
        wanted += outs
        for place, one in zip(slots[own], after):
            blocks[place] = one
        start += count
    first_state = state.clone()

    def function(query, key, value, state, beta, g, lengths, slots):
        return torch_npu.npu_recurrent_gated_delta_rule(
            query,
            key,
            value,
            state,
            beta=beta,
            actual_seq_lengths=lengths,
            ssm_state_indices=slots,
            num_accepted_tokens=number,
            g=g,
            gk=gk,
        )

    worst = near(BF16 if BF16 in (dtype, kept) else dtype)
    found = both(function, query, key, value, state, beta, g, *told, **worst)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), torch.stack(wanted), **worst)
    torch.testing.assert_close(state.double(), blocks, **worst)
    again, copied = torch_npu.npu_recurrent_gated_delta_rule_functional(
        query,
        key,
        value,
        first_state,
        beta=beta,
        actual_seq_lengths=told[0],
        ssm_state_indices=told[1],
        num_accepted_tokens=number,
        g=g,
        gk=gk,
    )
    assert torch.equal(again, found) and torch.equal(copied, state)
    assert not torch.equal(first_state, copied)


def test_recurrent_without_decays() -> None:
    """beta is 1, g is 0, the scale is given; NaN in blocks of no token reaches nothing."""
    query, key, value, _, g = tokens(2, F32)
    state = torch.full((4, VALUES, DV, DK), torch.nan)
    state[1], state[2] = 1.0, 2.0
    ones, zeros = torch.ones(1, VALUES), torch.zeros(1, VALUES)
    wanted = [
        rule(
            state[t + 1],
            query[t : t + 1],
            key[t : t + 1],
            value[t : t + 1],
            ones,
            zeros,
            None,
            0.5,
        )[0][0]
        for t in range(2)
    ]
    found = torch_npu.npu_recurrent_gated_delta_rule(
        query,
        key,
        value,
        state,
        scale=0.5,
        actual_seq_lengths=torch.tensor([1, 1]),
        ssm_state_indices=torch.tensor([1, 2]),
    )
    torch.testing.assert_close(
        found.double(), torch.stack(wanted), atol=1e-5, rtol=1e-5
    )
    assert state[0].isnan().all() and state[1:3].isfinite().all()
    del g


@pytest.mark.parametrize("scale", [None, 0.35])
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("kept", [F32, BF16])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_chunks(dtype, kept, decays, scale) -> None:
    """Sequences shorter and longer than a chunk, and tokens after them."""
    lengths = [70, 3, 0, 130]
    count = sum(lengths) + 2
    query, key, value, beta, g = tokens(count, dtype)
    g = g if decays else None
    state = torch.randn(len(lengths), VALUES, DV, DK).to(kept)
    told = torch.tensor(lengths, dtype=torch.int32)
    wanted = torch.zeros(count, VALUES, DV, dtype=torch.float64)
    last, start = [], 0
    for row, size in enumerate(lengths):
        own = slice(start, start + size)
        decay = torch.zeros(size, VALUES) if g is None else g[own]
        operands = query[own], key[own], value[own], beta[own], decay, None
        outs, after = rule(state[row], *operands, 1.0 if scale is None else scale)
        for place, out in enumerate(outs):
            wanted[start + place] = out
        last.append(after[-1] if after else state[row].double())
        start += size

    def function(query, key, value, beta, state, lengths):
        return torch_npu.npu_chunk_gated_delta_rule(
            query,
            key,
            value,
            beta=beta,
            initial_state=state,
            actual_seq_lengths=lengths,
            scale=scale,
            g=g,
        )

    worst = near(BF16 if BF16 in (dtype, kept) else dtype)
    given = query, key, value, beta, state, told
    graph = dtype == BF16 and decays and scale is not None
    out, final = both(function, *given, **worst) if graph else function(*given)
    assert out.dtype == dtype and final.dtype == kept
    torch.testing.assert_close(out.double(), wanted, **worst)
    torch.testing.assert_close(final.double(), torch.stack(last), **worst)


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("ends", [None, [0, 3, 11, 13]])
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_parts_of_chunks(dtype, ends, by_key) -> None:
    """npu_recompute_w_u_fwd."""
    batch, count, chunk = (2 if ends is None else 1), 13, 4
    k = torch.randn(batch, KEYS, count, DK).to(dtype)
    v = torch.randn(batch, VALUES, count, DV).to(dtype)
    beta = torch.rand(batch, VALUES, count)
    matrix = torch.randn(batch, VALUES, count, chunk).to(dtype)
    g = -torch.rand(batch, VALUES, count)
    gk = -torch.rand(batch, VALUES, count, DK) if by_key else None
    bounds = ends or [0, count]
    wanted = [torch.zeros(*v.shape[:3], n, dtype=torch.float64) for n in (DK, DV)]
    for start, end in itertools.pairwise(bounds):
        for t in range(start, end):
            first = start + (t - start) // chunk * chunk
            for j in range(first, min(first + chunk, end)):
                weight = (matrix[:, :, t, j - first] * 1.0).double() * beta[:, :, j]
                keys = k[:, :, j].double().repeat_interleave(VALUES // KEYS, 1)
                keys = keys * g[:, :, j].double().exp().unsqueeze(-1)
                keys = keys if gk is None else keys * gk[:, :, j].double().exp()
                wanted[0][:, :, t] += weight.unsqueeze(-1) * keys
                wanted[1][:, :, t] += weight.unsqueeze(-1) * v[:, :, j].double()
    chunks = None
    if ends is not None:
        chunks = [0, 0, 1, 0, 1, 1, 2, 0]

    def function(k, v, beta, matrix, g):
        return torch_npu.npu_recompute_w_u_fwd(
            k, v, beta, matrix, chunk, g=g, gk=gk, cu_seqlens=ends, chunk_indices=chunks
        )

    found = both(function, k, v, beta, matrix, g, **near(dtype))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.double(), other, **near(dtype))


def test_errors() -> None:
    query, key, value, beta, g = tokens(4, F32)
    told = {"actual_seq_lengths": torch.tensor([2, 2])}
    slots = {"ssm_state_indices": torch.arange(4)}
    state = torch.zeros(4, VALUES, DV, DK)
    operator = torch_npu.npu_recurrent_gated_delta_rule
    for given, more, text in (
        ((query, key, value, state), slots, "actual_seq_lengths is needed"),
        ((query, key, value, state), told, "ssm_state_indices is needed"),
        ((query, key, value, state[..., :3]), told, "state must be .blocks, 4, 6, 8."),
        ((query, key[:, :1], value, state), told, "key must have shape"),
        ((query, key, value[:, :3], state), told, "3 heads of value are no multiple"),
        (
            (query, key, value, state),
            slots | {"actual_seq_lengths": torch.tensor([0, 4])},
            r"must be from 1 to 8 and add up to at most 4, got \[0, 4\]",
        ),
        (
            (query, key, value, state),
            told | slots | {"g": beta[:2]},
            "g must have shape",
        ),
    ):
        with pytest.raises(
            RuntimeError, match=f"npu_recurrent_gated_delta_rule: .*{text}"
        ):
            operator(*given, **more)
    with pytest.raises(
        RuntimeError, match="npu_chunk_gated_delta_rule: beta is needed"
    ):
        torch_npu.npu_chunk_gated_delta_rule(query, key, value)
    given = {"beta": beta, "initial_state": state[:2], "g": g}
    with pytest.raises(RuntimeError, match=r"must add up to at most 4, got \[2, 3\]"):
        torch_npu.npu_chunk_gated_delta_rule(
            query, key, value, actual_seq_lengths=torch.tensor([2, 3]), **given
        )
    k, v = torch.ones(1, 2, 4, DK), torch.ones(1, 4, 4, DV)
    matrix = torch.ones(1, 4, 4, 2)
    for more, text in (
        ({"cu_seqlens": [0, 3]}, "cu_seqlens must ascend from 0 to 4"),
        ({"chunk_indices": [0, 0]}, r"chunk_indices must be \[0, 0, 0, 1\]"),
    ):
        with pytest.raises(RuntimeError, match=f"npu_recompute_w_u_fwd: {text}"):
            torch_npu.npu_recompute_w_u_fwd(
                k, v, torch.ones(1, 4, 4), matrix, 2, **more
            )
