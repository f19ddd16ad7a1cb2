"""The lines of random in-place programs: views, values, updates, and calls of operators
that write, as text."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch


def slice_text(rng: random.Random, size: int) -> str:
    begin = rng.randint(0, size)
    end = rng.randint(begin, size)
    step = rng.choice((1, 1, 1, 1, 2, 3))
    if size and rng.random() < 0.15:  # counted from the end
        begin, end = begin - size, min(end - size, -1)
    return f"{begin}:{end}" + (f":{step}" if step > 1 else "")


def index_text(rng: random.Random, shape: torch.Size) -> str:
    """Slices, mostly of one dimension."""
    chosen = rng.randrange(len(shape)) if shape else 0
    parts = []
    for dim, size in enumerate(shape):
        if dim == chosen or rng.random() < 0.15:
            parts.append(slice_text(rng, size))
        elif rng.random() < 0.1 and size:
            parts.append(str(rng.randrange(-size, size)))
        else:
            parts.append(":")
    if rng.random() < 0.1:
        parts.insert(rng.randint(0, len(parts)), "None")
    return ", ".join(parts) or "..."


def rows_text(rng: random.Random, size: int) -> str:
    """Two different rows of `size`, some counted from the end."""
    rows = rng.sample(range(size), min(size, 2))
    if rng.random() < 0.3:
        rows = [row - size for row in rows]
    return f"torch.tensor({rows}, dtype=torch.int64)"


def view_text(rng: random.Random, name: str, value: torch.Tensor) -> str:
    rank = value.dim()
    if rank == 0:
        return rng.choice(
            (f"{name}.unsqueeze(0)", f"{name}.expand(3)", f"{name}[None]")
        )
    dim, other = rng.randrange(rank), rng.randrange(rank)
    size = value.shape[dim]
    order = rng.sample(range(rank), rank)
    row = rng.randrange(-size, size) if size else 0
    choices = [
        f"{name}[{index_text(rng, value.shape)}]",
        f"{name}[{index_text(rng, value.shape)}]",
        f"{name}[{index_text(rng, value.shape)}]",
        f"{name}.transpose({dim}, {other})",
        f"{name}.permute({order})",
        f"{name}.unsqueeze({rng.randint(-rank - 1, rank)})",
        f"{name}.squeeze()",
        f"{name}.squeeze({dim})",
        f"{name}.flatten()",
        f"{name}.view(-1)",
        f"{name}.reshape(-1)",
        f"{name}.view([1, *{name}.shape, 1])",
        f"{name}.unflatten({dim}, ({_factor(rng, size)}, -1))",
        f"{name}.chunk(2, {dim})[-1]",
        f"{name}.split({max(size // 2, 1)}, {dim})[0]",
        f"{name}.tensor_split(3, {dim})[1]",
        f"{name}.unbind({dim})[{row}]",
        f"{name}.select({dim}, {row})",
        f"{name}.diagonal({rng.choice((-1, 0, 0, 1))}, {dim}, {other})",
        f"{name}.view({list(reversed(value.shape))})",
        f"{name}.narrow({dim}, {size // 3}, {size - size // 3 - size // 4})",
        f"{name}.expand(2, *{name}.shape)",
        f"{name}[{dim * ':, '}:1].expand({name}.shape)",
        f"{name}.unfold({dim}, {max(size // 2, 1)}, {max(size // 2, 1)})",
        f"{name}.movedim({dim}, {other})",
        f"{name}.detach()",
        f"{name}.view(torch.{_of_same_width(value)})",
        _strided_text(rng, name, value),
    ]
    return rng.choice(choices)


def _factor(rng: random.Random, size: int) -> int:
    return rng.choice([n for n in range(1, size + 1) if size % n == 0] or [1])


def _of_same_width(value: torch.Tensor) -> str:
    """A dtype whose elements have the bytes of the value's. The bytes of a float may be
    a NaN, which equals nothing."""
    own = str(value.dtype).removeprefix("torch.")
    return {"int8": "uint8", "uint8": "int8", "bool": "uint8"}.get(own, own)


def _strided_text(rng: random.Random, name: str, value: torch.Tensor) -> str:
    """`as_strided` with elements of the value only, which lies without gaps."""
    if value.numel() < 2 or not value.is_contiguous():
        return f"{name}[...]"
    begin = rng.randrange(value.numel())
    left = value.numel() - begin
    step = rng.choice((1, 1, 2, 3))
    columns = rng.randint(1, max((left - 1) // step, 0) + 1)
    rows = left // (columns * step)
    at = value.storage_offset() + begin
    if rows > 1:
        shape, strides = (rows, columns), (columns * step, step)
    else:
        shape, strides = (columns,), (step,)
    return f"{name}.as_strided({shape}, {strides}, {at})"


def compute_text(rng: random.Random, name: str, value: torch.Tensor, other: str) -> str:
    dim = rng.randrange(value.dim()) if value.dim() else 0
    return rng.choice(
        [
            f"{name} + 1",
            f"{name} * {other}",
            f"{name} + {other}",
            f"{name} - {other}",
            f"{name}.clone()",
            f"{name}.clamp(min=0)",
            f"torch.maximum({name}, {other})",
            f"torch.where({name} > 0, {name}, {other})",
            f"torch.cat([{name}, {other}], -1)",
            f"torch.stack([{name}, {name}], {dim})",
            f"{name}.flip({dim})",
            f"{name}.roll(1, {dim})",
            f"{name}.contiguous()",
            f"{name}.sum(-1, keepdim=True, dtype={name}.dtype)",
            f"{name}.amax({dim}, keepdim=True)",
            f"{name}.to(torch.{rng.choice(('float32', 'float16', 'bfloat16', 'int32'))})",
            f"{name} == {other}",
            f"torch.zeros_like({name})",
            f"torch.full_like({name}, 2)",
            f"{name}.new_ones({name}.shape)",
            f"{name}.tril()",
            f"{name}.index_select({dim}, {rows_text(rng, _size(value, dim))})",
            f"{name}.sort({dim}, stable=True)[0]",
            f"{name}.cumsum({dim}, dtype={name}.dtype)",
            f"{name} @ {other}.mT",
            f"torch.nn.functional.pad({name}, (1, 2))",
            f"{name}.repeat_interleave(2, {dim})",
        ]
    )


def _size(value: torch.Tensor, dim: int) -> int:
    return value.shape[dim] if value.dim() else 1


def update_text(rng: random.Random, name: str, value: torch.Tensor, other: str) -> str:
    at = index_text(rng, value.shape)
    dim = rng.randrange(value.dim()) if value.dim() else 0
    size = _size(value, dim)
    chosen = rows_text(rng, size)
    rows = f"{name}.index_select({dim}, {chosen})"
    columns = dim * ":, "
    fitted = f"{other}.expand({name}.shape)"  # `out` of another shape would be resized
    first = f"torch.zeros([min(n, 1) for n in {name}.shape], dtype=torch.int64)"
    return rng.choice(
        [
            f"{name}[{at}] = {name}[{at}] + 1",
            f"{name}[{at}] += 1",
            f"{name}[{at}].mul_(2)",
            f"{name}[{at}].relu_()",
            f"{name}[{at}].copy_({other}[{at}])",
            f"{name}[{at}] = 2",
            f"{name}[{at}] = {other}",
            f"{name}.add_({other})",
            f"{name}.sub_({other}, alpha=2)",
            f"{name}.mul_({other})",
            f"{name}.copy_({other})",
            f"{name}.copy_({name}.flip({dim}))",
            f"{name}.copy_({name}.roll(1, {dim}))",
            f"{name}.clamp_(min=0)",
            f"{name}.clamp_({other})",
            f"{name}.neg_()",
            f"{name}.fill_(1)",
            f"{name}.masked_fill_({other} > 0, 3)",
            f"{name}.masked_scatter_({name} > 0, {name}.flatten())",
            f"{name}[{name} > 1] = 1",
            f"{name}[{columns}{chosen}] = 3",
            f"{name}[{columns}{chosen}] = {rows} + 1",
            f"{name}[{columns}{chosen}] += 1",
            f"{name}.index_put_(({chosen},), {name}[:1], accumulate=True)",
            f"{name}.index_fill_({dim}, {chosen}, 1)",
            f"{name}.index_add_({dim}, {chosen}, {rows})",
            f"{name}.index_copy_({dim}, {chosen}, {rows})",
            f"{name}.scatter_({dim}, {first}, 2)",
            f"{name}.scatter_({dim}, {first}, {name}.clone())",
            f"{name}.scatter_add_({dim}, {first}, {name}.clone())",
            f"{name}[{at}].zero_()",
            f"{name}.tril_()",
            f"{name}.fill_diagonal_(2)",
            f"{name}.cumsum_({dim})",
            f"{name}.logical_not_()",
            f"{name}.eq_({other})",
            f"{name}.square_()",
            f"{name}.addcmul_({other}, {other})",
            f"{name}.bitwise_xor_({other})",
            f"torch.add({fitted}, 1, out={name})",
            f"torch.mul({fitted}, {fitted}, out={name})",
            f"{name}.diagonal(0, -2, -1).add_(1)",
            f"{name}.unbind({dim})[-1].add_(1)",
        ]
    )


def reshape_text(rng: random.Random, name: str, value: torch.Tensor) -> str:
    """A statement that gives the tensor another shape and no other elements."""
    rank = max(value.dim(), 1)
    dim, other = rng.randrange(rank), rng.randrange(rank)
    return rng.choice(
        [
            f"{name}.unsqueeze_({dim})",
            f"{name}.squeeze_()",
            f"{name}.transpose_({dim}, {other})",
            f"{name}.t_()",
        ]
    )


def results_text(names: Sequence[str]) -> str:
    return f"return [{', '.join(names)}]"


# Operators that write

library = torch.library.Library("random_writes", "FRAGMENT")


def define(schema: str, function, *tags: torch.Tag, fake=None) -> None:
    library.define(schema, tags=tags)
    name = schema.partition("(")[0]
    library.impl(name, function, "CPU")
    if fake is not None:
        torch.library.register_fake(f"random_writes::{name}", fake, lib=library)


def increase(x: torch.Tensor, amount: int = 1) -> None:
    x.add_(amount)


def take(x: torch.Tensor) -> torch.Tensor:
    """Returns the old value."""
    old = x.clone(memory_format=torch.contiguous_format)
    x.add_(1)
    return old


def combine(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor | None) -> None:
    x.add_(y)
    if z is not None:
        z.mul_(2)


def spread(xs: list[torch.Tensor], y: torch.Tensor | None) -> None:
    for number, x in enumerate(xs):
        x.add_(number if y is None else y)


define("increase(Tensor(a!) x, int amount=1) -> ()", increase)
define(
    "take(Tensor(a!) x) -> Tensor",
    take,
    fake=lambda x: x.new_empty(x.shape),
)
define("combine(Tensor(a!) x, Tensor y, Tensor(b!)? z) -> ()", combine)
define("spread(Tensor(a!)[] xs, Tensor? y) -> ()", spread)
define(
    "twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    lambda x, *, out: out.copy_(x + x),
    torch.Tag.out,
    fake=lambda x, *, out: out,
)
define(
    "negate_(Tensor(a!) x) -> Tensor(a!)",
    lambda x: x.neg_(),
    torch.Tag.inplace,
    fake=lambda x: x,
)


def call_text(rng: random.Random, name: str, value: torch.Tensor, other: str) -> str:
    """A statement that writes `name`, or views of it, and reads `other`."""
    at, also = index_text(rng, value.shape), index_text(rng, value.shape)
    view = rng.choice((name, name, f"{name}[{at}]", f"{name}[{at}]", f"{name}.t()"))
    call = "torch.ops.random_writes."
    return rng.choice(
        [
            f"{call}increase({view})",
            f"{call}increase({view}, 2)",
            f"{name}.copy_({call}take({view}))",
            f"{name}[{at}] = {call}take({name}[{at}])",
            f"{call}combine({view}, {other}, None)",
            f"{call}combine({name}[{at}], {other}[{at}], {name}[{also}])",
            f"{call}combine({view}, {view}.clone(), None)",
            f"{call}spread([{view}], {other})",
            f"{call}spread([{name}[{at}], {name}[{also}]], None)",
            f"{call}spread([], {other})",
            f"{call}twice({other}.expand({name}.shape), out={name})",
            f"{call}negate_({view})",
        ]
    )
