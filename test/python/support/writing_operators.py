"""Operators that write their arguments, and lines of random programs that call them."""

from __future__ import annotations

import random

import torch
from random_update_lines import index_text
from torch import Tensor

library = torch.library.Library("random_writes", "FRAGMENT")


def define(schema: str, function, *tags: torch.Tag, fake=None) -> None:
    library.define(schema, tags=tags)
    name = schema.partition("(")[0]
    library.impl(name, function, "CPU")
    if fake is not None:
        torch.library.register_fake(f"random_writes::{name}", fake, lib=library)


def increase(x: Tensor, amount: int = 1) -> None:
    x.add_(amount)


def take(x: Tensor) -> Tensor:
    """Returns the old value."""
    old = x.clone(memory_format=torch.contiguous_format)
    x.add_(1)
    return old


def combine(x: Tensor, y: Tensor, z: Tensor | None) -> None:
    x.add_(y)
    if z is not None:
        z.mul_(2)


def spread(xs: list[Tensor], y: Tensor | None) -> None:
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


def call_text(rng: random.Random, name: str, value: Tensor, other: str) -> str:
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
