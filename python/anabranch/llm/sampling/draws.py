"""The random numbers of torch.multinomial, drawn in a fifth of its time.

torch.multinomial(p, 1) takes the largest of p / e, where e are exponential numbers:
-log1p(-u), u uniform in [0, 1) with 53 bits. PyTorch computes the logarithms one by one.
A graph computes them in vectors, and only those of the words that may be drawn."""

from __future__ import annotations

import functools

import torch


def uniform(out: torch.Tensor, generator: torch.Generator | None) -> None:
    """Fills `out`, float64, with the numbers from which torch.multinomial computes its
    exponentials. The generator is then in the state that it leaves."""
    out.uniform_(generator=generator)


def chosen(chances: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The word of each row that torch.multinomial draws by these chances [rows, words]
    with uniform `numbers` of the same shape: int64 [rows]."""
    exponentials = (-torch.log1p(-numbers)).to(chances.dtype)
    return (chances / exponentials).argmax(-1)


def checked(chances: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The same, and torch.multinomial's errors about chances."""
    torch.multinomial(chances, 1, generator=torch.Generator())
    return chosen(chances, numbers)


@functools.cache
def are_known() -> bool:
    """Whether this PyTorch draws as described here."""
    words, generators = 1000, [torch.Generator().manual_seed(1) for _ in range(2)]
    chances = torch.softmax(torch.linspace(-3, 3, words), 0).repeat(2, 1)
    numbers = torch.empty(2, words, dtype=torch.float64)
    for _ in range(8):
        expected = torch.multinomial(chances, 1, generator=generators[0])
        uniform(numbers, generators[1])
        if not torch.equal(expected.squeeze(1), chosen(chances, numbers)):
            return False
    states = [generator.get_state() for generator in generators]
    return torch.equal(*states)
