"""Keeps composite operators whole while a model is traced."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import (
    _get_current_dispatch_mode,
    is_traceable_wrapper_subclass,
)
from torch.utils._pytree import tree_leaves

from .. import dynamo_lock

Rules = Mapping[Any, Callable[..., Any]]


@contextlib.contextmanager
def kept(operators: Iterable[Any], rules: Rules | None = None) -> Iterator[None]:
    """Keeps these operators whole inside the block, and those of `rules`: functions that
    make the results of an operator on fake tensors. PyTorch makes those of the others by
    running the operator's parts.

    The mechanism is the one that PyTorch has for torch.export. In a PyTorch without it
    the operators are taken apart, and only speed is lost."""
    try:
        from torch.export.exported_program import _override_composite_implicit_decomp
    except ImportError:
        yield
        return
    keep = {op: functools.partial(_stay_whole, op, None) for op in operators}
    for operator, rule in (rules or {}).items():
        keep[operator] = functools.partial(_stay_whole, operator, rule)
    with (
        dynamo_lock.held(),
        _without_decompositions(rules or {}),
        _override_composite_implicit_decomp(keep),
    ):
        yield


@contextlib.contextmanager
def _without_decompositions(operators: Iterable[Any]) -> Iterator[None]:
    """Fake tensors go by PyTorch's table of decompositions before anything else."""
    found = [operator for operator in operators if operator in decomposition_table]
    taken = {operator: decomposition_table.pop(operator) for operator in found}
    try:
        yield
    finally:
        decomposition_table.update(taken)


def _stay_whole(
    operator: Any, rule: Callable[..., Any] | None, *args: Any, **kwargs: Any
) -> Any:
    """Lets an operator stay whole, except for a tensor subclass such as DTensor: it
    asks for the parts of an operator that it does not know."""
    if any(map(is_traceable_wrapper_subclass, tree_leaves((args, kwargs)))):
        parts = torch._C.DispatchKey.CompositeImplicitAutograd
        return operator._op_dk(parts, *args, **kwargs)
    if rule and isinstance(_get_current_dispatch_mode(), FakeTensorMode):
        return rule(*args, **kwargs)
    return NotImplemented
