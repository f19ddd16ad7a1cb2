"""PyTorch's OpInfo database against the compiler: what test_opinfo.py and
scripts/run_opinfo.py share.

One operator and dtype is one compilation: its samples are computed by one
function. Where that fails, each sample is compiled alone to find the one.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import anabranch
from anabranch import backend
from anabranch.capture import aot

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "bool": torch.bool,
}

# Relative and absolute tolerance; of the accurate result's magnitude.
TOLERANCES = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 2e-5),
    torch.float16: (4e-3, 2e-3),
    torch.bfloat16: (2e-2, 1e-2),
}

# The result is undefined, or an address.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


# Where the samples of an operator were computed.
PLACES = {
    "own": "wholly in our kernels",
    "partly": "partly",
    "fallback": "by PyTorch",
}


@functools.cache
def database() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if op.name not in UNDEFINED]


def title(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


@dataclasses.dataclass
class Sample:
    """A call of an operator as a function of its tensors."""

    function: Callable[..., list[torch.Tensor]]
    tensors: list[torch.Tensor]

    def __call__(self) -> list[torch.Tensor]:
        torch.manual_seed(0)
        return self.function(*[tensor.clone() for tensor in self.tensors])


def samples(op: Any, dtype: torch.dtype, limit: int) -> list[Sample]:
    """At most `limit` samples, spread over all; those that PyTorch refuses are
    left out."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1.0, len(inputs) / limit)
    chosen = [inputs[int(i * step)] for i in range(min(limit, len(inputs)))]
    return [as_sample(op.op, item) for item in chosen]


@dataclasses.dataclass
class Call:
    """A sample's arguments, as OpInfo's SampleInput has them."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def as_sample(call: Callable[..., Any], item: Any) -> Sample:
    """`item` is a SampleInput or a Call."""
    flat, spec = tree_flatten((item.input, item.args, item.kwargs))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        values = list(flat)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        first, args, kwargs = tree_unflatten(values, spec)
        result = call(first, *args, **kwargs)
        return [leaf for leaf in tree_flatten(result)[0] if torch.is_tensor(leaf)]

    return Sample(function, [flat[place] for place in places])


@dataclasses.dataclass
class Outcome:
    """What became of an operator's samples."""

    samples: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    # What PyTorch's own trace of the operator gets wrong as well.
    known: list[str] = dataclasses.field(default_factory=list)
    fallbacks: set[str] = dataclasses.field(default_factory=set)
    eager: bool = False  # a graph, or the code between graphs, ran in PyTorch
    kernels: int = 0

    @property
    def where(self) -> str:
        """Where it ran: a key of PLACES."""
        if not self.fallbacks and not self.eager:
            return "own"
        return "partly" if self.kernels else "fallback"


def check(op: Any, dtype: torch.dtype, limit: int, dynamic: bool = False) -> Outcome:
    """Compiles the samples and compares them with eager."""
    outcome = Outcome()
    expected = list(eager(samples(op, dtype, limit)))
    outcome.samples = len(expected)
    if not expected:
        return outcome
    try:
        _compare_together(expected, dynamic, outcome)
    except Exception:  # noqa: BLE001 - any failure at all is looked at alone
        outcome.failures.clear()
        for number, (sample, wanted) in enumerate(expected):
            try:
                _compare_together([(sample, wanted)], dynamic, outcome)
            except Exception as error:  # noqa: BLE001 - it is the result
                text = str(error).strip().replace("\n", " ")[:300]
                told = f"sample {number}: {type(error).__name__}: {text}"
                if _is_traced_wrongly(sample, wanted, dynamic):
                    outcome.known.append(told)
                else:
                    outcome.failures.append(told)
    return outcome


def _traced(module: Any, inputs: Any) -> Callable[..., Any]:
    """A backend: the very graph that the compiler would get, run by PyTorch."""
    return aot.aot(
        module, inputs, lambda graph, _, __: backend.run_eagerly(graph), freeze=False
    )


def _is_traced_wrongly(
    sample: Sample, wanted: list[torch.Tensor], dynamic: bool
) -> bool:
    try:
        [actual] = run_together([sample], dynamic, _traced)
        compare(sample, actual, wanted)
    except Exception:  # noqa: BLE001 - whatever it is, it is not ours
        return True
    return False


def eager(found: list[Sample]) -> Iterator[tuple[Sample, list[torch.Tensor]]]:
    """Samples with their results; random ones only keep shape and dtype."""
    for sample in found:
        try:
            with torch.no_grad():
                result = sample()
        except Exception:  # noqa: BLE001, S112 - whatever eager refuses needs no answer
            continue
        if result:
            yield sample, result


def _compare_together(
    expected: list[tuple[Sample, list[torch.Tensor]]], dynamic: bool, outcome: Outcome
) -> None:
    anabranch.counters.reset()
    got = run_together([sample for sample, _ in expected], dynamic)
    _count(outcome)
    for (sample, wanted), actual in zip(expected, got, strict=True):
        compare(sample, actual, wanted)


def run_together(
    found: list[Sample], dynamic: bool, by: Callable[..., Any] = anabranch.anabranch
) -> list[list[torch.Tensor]]:
    """The results of all samples by one function, compiled by this backend."""
    torch._dynamo.reset()
    functions = [sample.function for sample in found]
    counts = [len(sample.tensors) for sample in found]

    def together(*tensors: torch.Tensor) -> list[list[torch.Tensor]]:
        results, start = [], 0
        for function, count in zip(functions, counts):
            results.append(function(*tensors[start : start + count]))
            start += count
        return results

    compiled = torch.compile(together, backend=by, dynamic=dynamic)
    tensors = [tensor.clone() for sample in found for tensor in sample.tensors]
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled(*tensors)


def _count(outcome: Outcome) -> None:
    report = anabranch.last_report() or {}
    outcome.fallbacks |= {entry["op"] for entry in report.get("fallbacks", [])}
    counters = anabranch.counters
    if counters.fallback_calls and not outcome.fallbacks:
        outcome.fallbacks.add("in an earlier graph")
    outcome.eager |= counters.graphs == 0 or counters.eager_graphs > 0
    outcome.kernels += counters.kernels


def compare(
    sample: Sample, actual: list[torch.Tensor], wanted: list[torch.Tensor]
) -> None:
    """Raises AssertionError unless the results are equal within the dtype's
    tolerance, or as near to the result in double precision as eager is."""
    assert len(actual) == len(wanted), f"{len(actual)} results, not {len(wanted)}"
    accurate: list[torch.Tensor] | None = None
    for position, (ours, eager) in enumerate(zip(actual, wanted)):
        assert ours.dtype == eager.dtype, f"{ours.dtype}, not {eager.dtype}"
        assert ours.shape == eager.shape, f"{ours.shape}, not {eager.shape}"
        if _is_close(ours, eager):
            continue
        if not _is_repeatable(sample, wanted):
            continue
        accurate = _accurately(sample) if accurate is None else accurate
        if len(accurate) > position and _is_nearer(ours, eager, accurate[position]):
            continue
        torch.testing.assert_close(ours, eager, equal_nan=True)
        raise AssertionError("outside the tolerance")


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a layout and dtype that PyTorch itself can compare."""
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return dense.to(torch.complex64) if dense.dtype is torch.complex32 else dense


def _is_close(ours: torch.Tensor, eager: torch.Tensor) -> bool:
    ours, eager = _comparable(ours), _comparable(eager)
    if ours.dtype not in TOLERANCES:
        return torch.equal(ours, eager) or (
            ours.is_complex() and torch.allclose(ours, eager, 1e-4, 1e-5, True)
        )
    relative, absolute = TOLERANCES[ours.dtype]
    return torch.allclose(ours, eager, relative, absolute, equal_nan=True)


def _is_repeatable(sample: Sample, wanted: list[torch.Tensor]) -> bool:
    """Whether another seed gives the same: false for random numbers."""
    torch.manual_seed(1)
    again = sample.function(*[tensor.clone() for tensor in sample.tensors])
    return all(
        torch.allclose(a, b, equal_nan=True) if a.dtype == b.dtype else False
        for a, b in zip(again, wanted)
    )


def _accurately(sample: Sample) -> list[torch.Tensor]:
    """The results in double precision; none where PyTorch has no such kernel."""
    tensors = [t.double() if t.is_floating_point() else t for t in sample.tensors]
    try:
        return sample.function(*tensors)
    except Exception:  # noqa: BLE001 - the sample names its dtype, or there is no kernel
        return []


def _is_nearer(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    """Twice eager's largest error is allowed."""
    if not ours.is_floating_point() or exact.shape != ours.shape:
        return False
    relative, absolute = TOLERANCES[ours.dtype]
    finite = torch.isfinite(exact) & torch.isfinite(eager) & torch.isfinite(ours)
    if not torch.equal(torch.isnan(ours), torch.isnan(eager)):
        return False
    scale = exact[finite].abs()
    ours_error = (ours.double() - exact)[finite].abs()
    eager_error = (eager.double() - exact)[finite].abs()
    allowed = 2 * eager_error.max() if eager_error.numel() else 0.0
    return bool((ours_error <= allowed + absolute + relative * scale).all())
