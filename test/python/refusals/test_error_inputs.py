"""A compiled call refuses what eager PyTorch refuses, over PyTorch's OpInfo database: the
wrong arguments that it lists of its operators, and samples in dtypes that an operator has
no kernel for.

Dynamo itself refuses what a run over fake tensors refuses. So only the other calls are
compiled. `make test` takes all wrong arguments, and the dtypes of a part of the operators;
ANABRANCH_OPINFO=full takes those of all, ANABRANCH_OPINFO_CHUNK=3/10 the third tenth."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import opinfo
import pytest
import torch
from checking import clone, compiled
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

FULL = os.environ.get("ANABRANCH_OPINFO") == "full"
CHUNK, _, CHUNKS = os.environ.get("ANABRANCH_OPINFO_CHUNK", "1/32").partition("/")

# What a trace cannot tell from a right call, by operator.
KNOWN: dict[str, str] = {}

Refused = tuple[tuple[Any, ...], dict[str, Any]]


def wrong_arguments(operator: Any) -> Iterator[Refused]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for error in operator.error_inputs("cpu"):
            sample = error.sample_input
            yield (sample.input, *sample.args), sample.kwargs


def wrong_dtypes(operator: Any) -> Iterator[Refused]:
    """A sample for each dtype without a kernel, and one for each that one tensor alone
    has."""
    usual = torch.float32 if operator.supports_dtype(torch.float32, "cpu") else None
    for dtype in opinfo.DTYPES.values():
        if not operator.supports_dtype(dtype, "cpu"):
            yield from _first_sample(operator, dtype)
        elif usual and dtype != usual:
            for args, kwargs in _first_sample(operator, usual):
                for tensor in _tensors((args, kwargs))[1:]:
                    yield _with_dtype((args, kwargs), tensor, dtype)


def _first_sample(operator: Any, dtype: torch.dtype) -> Iterator[Refused]:
    torch.manual_seed(0)
    try:
        sample = next(iter(operator.sample_inputs("cpu", dtype)))
    except Exception:  # noqa: BLE001 - the generator of samples has no such numbers
        return
    yield (sample.input, *sample.args), sample.kwargs


def _tensors(values: Any) -> list[torch.Tensor]:
    return [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]


def _with_dtype(call: Refused, changed: torch.Tensor, dtype: torch.dtype) -> Refused:
    """The call with one of its tensors in another dtype."""
    return pytree.tree_map(lambda v: v.to(dtype) if v is changed else v, call)


def refuses(function: Callable[..., Any], call: Refused) -> bool:
    args, kwargs = clone(call)
    torch.manual_seed(0)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - any error is a refusal
        return True
    return False


def refuses_fakes(function: Callable[..., Any], call: Refused) -> bool:
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def run(*args: Any, **kwargs: Any) -> None:
        with mode:
            function(*args, **kwargs)

    args, kwargs = pytree.tree_map_only(torch.Tensor, mode.from_tensor, call)
    try:
        with torch.no_grad():
            run(*args, **kwargs)
    except Exception:  # noqa: BLE001 - any error is a refusal
        return True
    return False


def assert_refused(operator: Any, calls: Iterator[Refused]) -> None:
    def run(*args: Any, **kwargs: Any) -> Any:
        return operator.op(*args, **kwargs)

    accepted = []
    for number, call in enumerate(calls):
        if not refuses(run, call) or refuses_fakes(run, call):
            continue
        for dynamic in (False, True):
            torch._dynamo.reset()
            if not refuses(compiled(run, dynamic=dynamic), call):
                dtypes = [tensor.dtype for tensor in _tensors(call)]
                accepted.append((number, dynamic, dtypes))
    assert not accepted


def operators(chosen: Callable[[int, Any], bool]) -> list[Any]:
    return [
        pytest.param(operator, id=opinfo.title(operator))
        for number, operator in enumerate(opinfo.database())
        if chosen(number, operator) and opinfo.title(operator) not in KNOWN
    ]


@pytest.mark.parametrize(
    "operator", operators(lambda _, operator: operator.error_inputs_func is not None)
)
def test_wrong_arguments(operator: Any) -> None:
    assert_refused(operator, wrong_arguments(operator))


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator",
    operators(lambda number, _: FULL or number % int(CHUNKS) == int(CHUNK) - 1),
)
def test_wrong_dtypes(operator: Any) -> None:
    assert_refused(operator, wrong_dtypes(operator))
