"""npu_moe_init_routing_v2 against a loop over choices in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import torch_npu
from agreement import both

ROWS, K, EXPERTS, WIDTH = 6, 3, 5, 8


def choices(experts, first=0, end=EXPERTS):
    """(expert, choice) of the range, in the order of the result."""
    flat = [(int(e), i) for i, e in enumerate(experts.flatten())]
    return sorted((e, i) for e, i in flat if first <= e < end)


def slots(experts, capacity):
    """The choice in each expert's slots, None where a slot is empty."""
    of = [[i for e, i in choices(experts) if e == n] for n in range(EXPERTS)]
    return [
        own[place] if place < len(own) else None
        for own in of
        for place in range(capacity)
    ]


def quantised(row, largest):
    """The integers of a float64 row, and its scale."""
    scale = row.abs().max() / largest
    return torch.round(row / scale), float(scale)


def tokens():
    return torch.randn(ROWS, WIDTH), torch.randint(0, EXPERTS, (ROWS, K)).int()


@pytest.mark.parametrize("capacity", [1, 2, ROWS])
@pytest.mark.parametrize("quant", [-1, 0, 1])
@pytest.mark.parametrize("scaled", [False, True])
def test_experts_with_a_capacity(capacity, quant, scaled) -> None:
    x, experts = tokens()
    shape = {-1: (ROWS,), 0: (1,), 1: (EXPERTS, WIDTH)}[quant]
    scale = torch.rand(shape) + 0.5 if scaled or quant == 0 else None
    offset = torch.tensor([3.0]) if quant == 0 else None
    rows, places, counts, scales = both(
        lambda x, e: torch_npu.npu_moe_init_routing_v2(
            x,
            e,
            scale=scale,
            offset=offset,
            expert_num=EXPERTS,
            expert_capacity=capacity,
            drop_pad_mode=1,
            expert_tokens_num_type=1,
            expert_tokens_num_flag=True,
            quant_mode=quant,
        ),
        *(x, experts),
    )
    assert rows.shape == (EXPERTS, capacity, WIDTH)
    assert rows.dtype == (x.dtype if quant == -1 else torch.int8)
    kept = slots(experts, capacity)
    for place, choice in enumerate(kept):
        row, own = rows.flatten(0, 1)[place], scales[place]
        if choice is None:
            assert not row.any()
            assert own == 0
            continue
        assert places[choice] == place
        wanted = x[choice // K].double()
        if quant == -1:
            assert torch.equal(row.double(), wanted)
            assert own == (0 if scale is None else scale[choice // K])
        elif quant == 0:
            assert scale is not None
            near = wanted * float(scale) + 3
            assert (row.double() - near.round()).abs().max() <= 1
            assert (row.double() - near).abs().max() < 0.51
        else:
            expert = int(experts.flatten()[choice])
            wanted = wanted if scale is None else wanted * scale[expert].double()
            integers, factor = quantised(wanted, 127)
            assert (row.double() - integers).abs().max() <= 1
            assert math.isclose(own, factor, rel_tol=1e-6)
    left = set(range(ROWS * K)) - set(kept)
    assert all(places[choice] == -1 for choice in left)
    assert counts.tolist() == [int((experts == n).sum()) for n in range(EXPERTS)]


@pytest.mark.parametrize("span", [[], [1, 4]])
@pytest.mark.parametrize("active", [0, 4, 99])
def test_fewer_rows_and_pairs_of_expert_and_number(span, active) -> None:
    x, experts = tokens()
    experts[experts == 2] = 3  # an expert without rows
    scale = torch.rand(ROWS)
    rows, places, pairs, scales = both(
        lambda x, e, s: torch_npu.npu_moe_init_routing_v2(
            x,
            e,
            scale=s,
            active_num=active,
            expert_num=EXPERTS,
            expert_tokens_num_type=2,
            expert_tokens_num_flag=True,
            active_expert_range=span,
            row_idx_type=1,
        ),
        *(x, experts, scale),
    )
    total = ROWS * K
    assert rows.shape == (min(active or total, total), WIDTH)
    assert scales.shape == rows.shape[:1]
    order = choices(experts, *(span or (0, EXPERTS)))
    for place, (_, choice) in enumerate(order[: rows.shape[0]]):
        assert torch.equal(rows[place], x[choice // K])
        assert scales[place] == scale[choice // K]
    assert not rows[len(order) :].any()
    assert places[: len(order)].tolist() == [choice for _, choice in order]
    runs = itertools.groupby(e for e, _ in order)
    wanted = [[e, len(list(run))] for e, run in runs]
    assert pairs.tolist() == wanted + [[0, 0]] * (EXPERTS - len(wanted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_int4(dtype, scaled) -> None:
    x, experts = tokens()
    x = x.to(dtype)
    scale = torch.rand(1, WIDTH) + 0.5 if scaled else None
    rows, _, _, scales = both(
        lambda x, e: torch_npu.npu_moe_init_routing_v2(
            x, e, scale=scale, expert_num=EXPERTS, quant_mode=13
        ),
        *(x, experts),
    )
    assert (rows.dtype, rows.shape) == (torch.uint8, (ROWS * K, WIDTH // 2))
    for place, (_, choice) in enumerate(choices(experts)):
        wanted = x[choice // K].double() * (1 if scale is None else scale[0].double())
        integers, factor = quantised(wanted, 7)
        halves = [(int(b) & 15, int(b) >> 4) for b in rows[place]]
        found = [h - 16 if h > 7 else h for pair in halves for h in pair]
        assert (torch.tensor(found) - integers).abs().max() <= 1
        assert math.isclose(scales[place], factor, rel_tol=1e-6)
    assert scales.shape == (ROWS * K,)


X, E = torch.ones(3, 4), torch.zeros(3, 2, dtype=torch.int32)
WRONG = {
    "expert_capacity must be from 1 to 3, got 4": {"expert_capacity": 4},
    "needs all 2 experts, not 0 to 1": {"active_expert_range": [0, 1]},
    "drop_pad_mode 1 needs row_idx_type 0": {"row_idx_type": 1},
    "no such drop_pad_mode: 2": {"drop_pad_mode": 2},
    "active_num must not be below -1": {"active_num": -2},
    "quant_mode must be one of": {"quant_mode": 10, "expert_capacity": 1},
    "quant_mode 0 needs scale": {"quant_mode": 0, "expert_capacity": 1},
    "offset must be None in quant_mode 1": {
        "quant_mode": 1,
        "expert_capacity": 1,
        "offset": torch.ones(1),
    },
    r"scale must have shape \(3,\)": {"scale": torch.ones(2), "expert_capacity": 1},
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_go_together(text) -> None:
    options = {"drop_pad_mode": 1, "expert_num": 2} | WRONG[text]
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_moe_init_routing_v2(X, E, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"x_dtype": 290}, "x of hifloat8 must be torch.uint8, got torch.float32"),
        ({"x_dtype": 290, "quant_mode": 1}, "x_dtype must be None in quant_mode 1"),
        ({"x_dtype": 290, "quant_mode": 13}, "x_dtype must be None or int4"),
        ({"quant_mode": 7}, "quant_mode 7 needs scale"),
        ({"quant_mode": 9, "x": X[:, :3]}, "rows of an even size, got 3"),
        (
            {"quant_mode": 3, "x": X.to(torch.int8)},
            "x must be float16, bfloat16, float32",
        ),
        (
            {
                "x": X.to(torch.float8_e5m2),
                "scale": torch.ones(3, 2, 2).to(torch.uint8),
            },
            r"scale must have shape \(3,\) or \(3, 1, 2\)",
        ),
    ],
)
def test_types_that_do_not_go_together(options, text) -> None:
    given = {"x": X, "expert_num": 2, **options}
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_moe_init_routing_v2(given.pop("x"), E, **given)


def test_no_rows() -> None:
    rows, places, counts, scales = torch_npu.npu_moe_init_routing_v2(
        X[:0], E[:0], scale=torch.ones(0), expert_num=2, quant_mode=1,
        expert_tokens_num_type=1, expert_tokens_num_flag=True,
    )  # fmt: skip
    assert rows.shape == (0, 4) and rows.dtype == torch.int8
    assert places.shape == scales.shape == (0,) and counts.tolist() == [0, 0]
