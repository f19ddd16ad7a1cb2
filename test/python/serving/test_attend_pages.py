"""Attention over the pages of a server, against the formula in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from anabranch import extension

PAGE = 32


class Step:
    """One step of requests, whose keys and values lie in shuffled pages."""

    def __init__(self, lengths, heads=6, pairs=2, size=64, dtype=torch.float32):
        random = torch.Generator().manual_seed(0)
        made = {"generator": random, "dtype": torch.float64}
        self.size, self.lengths = size, torch.tensor(lengths, dtype=torch.int32)
        width, count = max(lengths) // PAGE + 1, len(lengths)
        pages = width * count
        table = torch.randperm(pages, generator=random).to(torch.int32)
        self.table = table.view(count, width)
        self.past = [torch.randn(2, n, pairs, size, **made).to(dtype) for n in lengths]
        cache = torch.full((pages, pairs, 2 * PAGE, size), torch.nan, dtype=dtype)
        self.keys, self.values = cache.chunk(2, dim=2)
        ends = [divmod(n - 1, PAGE) for n in lengths]
        slots = [
            int(row[i]) * PAGE + j for row, (i, j) in zip(self.table, ends, strict=True)
        ]
        self.slots = torch.tensor(slots)
        for row, n in enumerate(lengths):
            for token in range(n - 1):
                self.write(row, token)
        joined = torch.randn(count, (heads + 2 * pairs) * size, **made).to(dtype)
        self.query, self.key, self.value = (
            part.view(count, -1, size)
            for part in joined.split([heads * size, pairs * size, pairs * size], -1)
        )
        for row, past in enumerate(self.past):
            past[:, -1] = torch.stack([self.key[row], self.value[row]])
        self.output = torch.empty_like(self.query).contiguous()

    def parts(self, row: int, token: int) -> tuple[Tensor, Tensor]:
        """The key and the value of a token, as the cache has them."""
        page, place = self.table[row, token // PAGE], token % PAGE
        keys = self.keys[page].reshape(-1, self.size, PAGE)
        return keys[:, :, place], self.values[page][:, place]

    def write(self, row: int, token: int) -> None:
        page, place = self.table[row, token // PAGE], token % PAGE
        key, value = self.past[row][:, token]
        flat = self.keys[page].view(-1, self.size, PAGE)
        flat[:, :, place] = key
        self.values[page][:, place] = value

    def attend(self, window: int = 0, **changes) -> Tensor:
        given = {
            name: getattr(self, name)
            for name in ("query", "key", "value", "output", "keys", "values")
            + ("table", "lengths", "slots")
        }
        given |= {"scale": self.size**-0.5, "window": window} | changes
        extension.attend_pages(**given)
        return self.output

    def expected(self, window: int = 0) -> Tensor:
        rows = []
        for row, past in enumerate(self.past):
            keys, values = past[:, -window:].double().transpose(1, 2)
            query = self.query[row, :, None].double()
            attended = F.scaled_dot_product_attention(
                query, keys, values, enable_gqa=True
            )
            rows.append(attended[:, 0])
        return torch.stack(rows).to(self.query.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [0, 1, 40])
def test_attention_is_the_formulas(dtype, window) -> None:
    step = Step([1, 31, 32, 33, 100, 7], dtype=dtype)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(step.attend(window), step.expected(window), **tolerance)


@pytest.mark.parametrize(
    ("heads", "pairs", "size"), [(1, 1, 16), (9, 1, 80), (5, 5, 96)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_heads_that_share_keys(heads, pairs, size, threads) -> None:
    step = Step([40, 3, 64], heads, pairs, size)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = step.attend()
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, step.expected(), rtol=1e-5, atol=1e-5)


def test_the_new_token_is_in_the_cache() -> None:
    step = Step([1, 32, 33])
    step.attend()
    for row, n in enumerate((1, 32, 33)):
        key, value = step.parts(row, n - 1)
        assert torch.equal(key, step.key[row])
        assert torch.equal(value, step.value[row])


def test_nan_is_the_result_of_nan() -> None:
    step = Step([5, 5])
    step.query[1, 0, 0] = torch.nan
    found = step.attend()
    assert found[1, 0].isnan().all()
    assert not found[0].isnan().any()
    assert not found[1, 1:].isnan().any()


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"query": [1.0]}, TypeError, "query is no tensor"),
        ({"key": torch.zeros(2, 2)}, TypeError, "key is no tensor of f32 and 3 dim"),
        ({"lengths": torch.tensor([5, 5])}, TypeError, "lengths is no tensor of i32"),
        ({"value": torch.zeros(2, 1, 64)}, ValueError, "value does not have the sizes"),
        ({"output": torch.zeros(3, 6, 64)}, ValueError, "output does not have"),
        ({"output": torch.zeros(2, 6, 128)[..., ::2]}, ValueError, "output has gaps"),
        (
            {"slots": torch.tensor([0, 99])},
            ValueError,
            "request 1 writes slot 99 of 64",
        ),
        ({"window": -1}, ValueError, "window is negative"),
    ],
)
def test_arguments_that_do_not_fit(changes, kind, message) -> None:
    step = Step([5, 5])
    kept = step.keys.clone()
    with pytest.raises(kind, match=message):
        step.attend(**changes)
    assert torch.equal(step.keys.nan_to_num(), kept.nan_to_num())


def test_halves_are_refused() -> None:
    step = Step([5, 5], dtype=torch.float16)
    with pytest.raises(ValueError, match="bf16 or f32, not f16"):
        step.attend()
