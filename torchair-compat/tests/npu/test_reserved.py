"""Arguments that only other processors use: scripts may pass their defaults. Some arguments
may be positional."""

from __future__ import annotations

import pytest
import torch

import torch_npu

X = torch.ones(2, 4)
RESERVED = {
    "npu_quant_scatter: round_mode must be 'rint', got 'round'": (
        lambda value: torch_npu.npu_quant_scatter(
            torch.zeros(1, 4, 4, dtype=torch.int8),
            torch.zeros(1, dtype=torch.int32),
            torch.ones(1, 2, 4),
            *(torch.ones(4), None, -2, -1, "update", None, value),
        ),
        ("rint", "round"),
    ),
}


@pytest.mark.parametrize("text", RESERVED)
def test_only_the_default_is_taken(text) -> None:
    function, (default, other) = RESERVED[text]
    function(default)
    with pytest.raises(NotImplementedError, match=text):
        function(other)


def test_groups_take_no_types_of_other_processors() -> None:
    with pytest.raises(RuntimeError, match="scale_dtype must be None, got 5"):
        torch_npu.npu_grouped_matmul([X], [X.t()], scale_dtype=5)


@pytest.mark.parametrize("mode", [1, 3])
def test_rows_of_experts_with_a_capacity(mode) -> None:
    """The permuted rows have shape (experts, capacity, width). An index of -1 marks a dropped
    row."""
    rows, k, experts, capacity, width = 3, 2, 4, 2, 5
    made = torch.randn(experts, capacity, width)
    places = torch.tensor([0, 3, -1, 6, 2, 7], dtype=torch.int32)
    scales = torch.rand(rows, k)
    owners = torch.zeros(rows, k, dtype=torch.int32)
    found = torch_npu.npu_moe_finalize_routing(
        made, None, None, None, scales, places, owners, drop_pad_mode=mode
    )
    flat = made.double().flatten(0, 1)
    for row in range(rows):
        wanted = torch.zeros(width, dtype=torch.float64)
        for j in range(k):
            place = int(places[row * k + j] if mode == 3 else places[j * rows + row])
            if place >= 0:
                wanted += scales[row, j].double() * flat[place]
        torch.testing.assert_close(found[row].double(), wanted, atol=1e-6, rtol=1e-5)
