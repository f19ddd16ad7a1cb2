"""Causal convolutions equal a loop over tokens in float64, in graphs and outside."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from agreement import both

F16, BF16 = torch.float16, torch.bfloat16
DIM, LENGTHS = 4, [5, 1, 7, 3]
NEAR = {F16: {"atol": 1e-2, "rtol": 1e-2}, BF16: {"atol": 8e-2, "rtol": 3e-2}}


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_masked(dtype, masked) -> None:
    x, weight = torch.randn(6, 2, DIM).to(dtype), torch.randn(3, DIM).to(dtype)
    mask = torch.rand(2, 6) > 0.4 if masked else None
    wanted = torch.zeros(6, 2, DIM, dtype=torch.float64)
    for s in range(6):
        for k in range(3):
            if s - 2 + k >= 0:
                wanted[s] += weight[k].double() * x[s - 2 + k].double()
    if mask is not None:
        wanted[~mask.t()] = 0

    def function(x, weight, mask):
        return torch_npu.npu_masked_causal_conv1d(x, weight, mask=mask)

    found = both(function, x, weight, mask, **NEAR[dtype])
    torch.testing.assert_close(found.double(), wanted, **NEAR[dtype])


def convolved(x, weight, states, told):
    """The results and the cache by a loop over sequences, in float64."""
    states, made = states.double().clone(), torch.zeros(x.shape, dtype=torch.float64)
    before, start, rows = states.clone(), 0, states.shape[1]
    size = told.get("block_size", 128)
    for b, length in enumerate(LENGTHS):
        own, start = slice(start, start + length), start + length
        indices = told.get("cache_indices")
        read = write = b if indices is None else indices[b]
        if "initial_state_idx" in told:
            read = indices[b][told["initial_state_idx"][b]]
            write = indices[b][told["block_idx_last_scheduled_token"][b]]
        if read == told.get("pad_slot_id", -1):
            continue
        computed = told.get("num_computed_tokens", [1] * len(LENGTHS))[b]
        offset = rows - 2
        if "num_accepted_tokens" in told:
            offset = told["num_accepted_tokens"][b] - 1
        if computed == 0:
            offset = 0
        old = before[read][: offset + 2] * (0 if computed == 0 else 1)
        padded = torch.cat([old, x[own].double()])
        kept = min(rows, len(padded))
        states[write][rows - kept :] = padded[len(padded) - kept :]
        padded = padded[offset:]
        if "initial_state_idx" in told:
            beyond = (length - (size - computed % size)) % size
            end = length - beyond - (size if beyond == 0 else 0)
            first = told["block_idx_first_scheduled_token"][b]
            count = told["block_idx_last_scheduled_token"][b] - first
            for chunk in range(count):
                at = end - (count - chunk - 1) * size
                states[indices[b][first + chunk]][rows - 2 :] = padded[at : at + 2]
        for i in range(length):
            for k in range(3):
                made[own][i] += weight[k].double() * padded[i + k]
            if told.get("conv_mode") == "pangu" and i < 2 - computed:
                made[own][i] = 0
        if told.get("residual_connection"):
            made[own] += x[own].double()
    return made, states


BLOCKS = {
    "cache_indices": [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]],
    "initial_state_idx": [0, 0, 0, 1],
    "block_idx_first_scheduled_token": [0, 0, 0, 1],
    "block_idx_last_scheduled_token": [1, 0, 1, 2],
    "num_computed_tokens": [2, 1, 0, 6],
    "block_size": 4,
}
CASES = [
    {},
    {"cache_indices": [4, 0, -1, 2], "residual_connection": 1},
    {"cache_indices": [4, 0, 7, 2], "pad_slot_id": 7},
    {"num_computed_tokens": [0, 3, 1, 0]},
    {"num_computed_tokens": [0, 3, 1, 0], "conv_mode": "pangu"},
    {"num_accepted_tokens": [2, 1, 3, 1], "num_computed_tokens": [3, 0, 9, 5]},
    BLOCKS,
]


@pytest.mark.parametrize("told", CASES, ids=lambda told: "-".join(told) or "plain")
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_fused(dtype, told) -> None:
    x, weight = torch.randn(16, DIM).to(dtype), torch.randn(3, DIM).to(dtype)
    states = torch.randn(12, 4, DIM).to(dtype)
    wanted, after = convolved(x, weight, states, told)
    options = {
        key: int32(value) if isinstance(value, list) else value
        for key, value in told.items()
    }
    starts = int32([0, 5, 6, 13, 16])

    def function(x, weight, states):
        return torch_npu.npu_fused_causal_conv1d(
            x, weight, states, query_start_loc=starts, **options
        )

    if dtype == F16 and told in (BLOCKS, *CASES[2:5:2]):
        found = both(function, x, weight, states, **NEAR[dtype])
    else:
        found = function(x, weight, states)
    torch.testing.assert_close(found.double(), wanted, **NEAR[dtype])
    torch.testing.assert_close(states.double(), after)


def test_into_x() -> None:
    x, weight = torch.randn(4, 2, DIM).half(), torch.randn(3, DIM).half()
    states, given = torch.randn(4, 2, DIM).half(), x.clone()
    wanted = torch_npu.npu_fused_causal_conv1d(
        x, weight, states.clone(), cache_indices=int32([3, 1, -1, 0])
    )
    wanted[2] = x[2]  # the sequence is left out

    def function(x, weight, states, indices):
        torch_npu.npu_fused_causal_conv1d_v2(x, weight, states, cache_indices=indices)
        return x + 0

    both(function, given, weight, states, int32([3, 1, -1, 0]), **NEAR[F16])
    torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"query_start_loc": None},
            "query_start_loc is needed for x of two dimensions",
        ),
        ({"query_start_loc": int32([0, 9, 4])}, "query_start_loc must rise from 0 to"),
        ({"conv_mode": "pangu"}, "conv_mode 'pangu' needs num_computed_tokens"),
        ({"conv_mode": "other"}, "conv_mode must be one of"),
        ({"residual_connection": 2}, "residual_connection must be 0 or 1, got 2"),
        ({"initial_state_idx": int32([0, 0])}, "initial_state_idx and cache_indices"),
        (
            {"num_accepted_tokens": int32([9, 1])},
            "num_accepted_tokens must be from 1 to",
        ),
        ({"weight": torch.ones(4, DIM).half()}, r"weight must have shape \(3, 4\)"),
        (
            {"conv_states": torch.ones(2, 1, DIM).half()},
            "conv_states must have at least",
        ),
        ({"x": torch.ones(9, DIM)}, "x must be float16, bfloat16, got torch.float32"),
    ],
)
def test_wrong(change, text) -> None:
    right = {
        "x": torch.ones(9, DIM).half(),
        "weight": torch.ones(3, DIM).half(),
        "conv_states": torch.ones(2, 2, DIM).half(),
        "query_start_loc": int32([0, 4, 9]),
    }
    with pytest.raises(RuntimeError, match=f"npu_fused_causal_conv1d: {text}"):
        torch_npu.npu_fused_causal_conv1d(**{**right, **change})
