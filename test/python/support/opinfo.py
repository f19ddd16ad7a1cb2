"""PyTorch's OpInfo database against the compiler: what test_opinfo.py and
scripts/run_opinfo.py share.

One operator, dtype and form is one compilation: its samples are computed by one
function. Where that fails, each sample is compiled alone to find the one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from opinfo_compare import compare
from opinfo_samples import Call, Sample, Tensors, as_sample, copied, finished
from torch.utils._pytree import tree_leaves

import anabranch
from anabranch import backend
from anabranch.capture import aot
from anabranch.describe.views import overlaps

__all__ = [
    "Call",
    "Outcome",
    "Sample",
    "as_sample",
    "check",
    "compare",
    "database",
    "eager",
    "run_together",
    "supports",
    "title",
]

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "c32": torch.complex32,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}

# The ways to call an operator: its function, the method that writes into its tensor,
# `out`, or under autograd.
FORMS = ("function", "in-place", "out", "gradients")

# The results of these are undefined, or addresses.
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


def supports(op: Any, name: str, form: str = "function") -> bool:
    """Whether PyTorch has this operator in this dtype and form on a CPU."""
    dtype = DTYPES[name]
    if form == "gradients":
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if form == "in-place" and op.get_inplace() is None:
        return False
    if form == "out" and not op.supports_out:
        return False
    return op.supports_dtype(dtype, "cpu")


def samples(
    op: Any, dtype: torch.dtype, limit: int, form: str = "function"
) -> list[Sample]:
    """At most `limit` samples, spread over all samples of the operator."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wants = form == "gradients"
        inputs = list(op.sample_inputs("cpu", dtype, requires_grad=wants))
    step = max(1.0, len(inputs) / limit)
    chosen = [inputs[int(i * step)] for i in range(min(limit, len(inputs)))]
    made = (_in_form(op, item, form) for item in chosen)
    return [sample for sample in made if sample is not None]


def _in_form(op: Any, item: Any, form: str) -> Sample | None:
    """The sample in this form of call; None if it has none."""
    if form == "in-place":
        return None if item.broadcasts_input else as_sample(op.get_inplace(), item)
    if form == "out":
        return _with_out(op, item)
    if form == "function":
        return as_sample(op.op, item)

    def processed(first: Any, *args: Any, **kwargs: Any) -> Any:
        """The part of the results that is unique and has a gradient."""
        return item.output_process_fn_grad(op.op(first, *args, **kwargs))

    return as_sample(processed, item, differentiated=True)


def _with_out(op: Any, item: Any) -> Sample | None:
    try:
        with torch.no_grad():
            result = op.op(item.input, *item.args, **item.kwargs)
    except Exception:  # noqa: BLE001 - what eager refuses needs no answer
        return None
    if not all(map(torch.is_tensor, tree_leaves(result))):
        return None
    is_one = torch.is_tensor(result)
    made = [torch.ones_like(t) for t in ([result] if is_one else tree_leaves(result))]
    out = {"out": made[0] if is_one else tuple(made)}
    return as_sample(op.op, Call(item.input, item.args, {**item.kwargs, **out}))


@dataclasses.dataclass
class Outcome:
    """The result of checking an operator's samples."""

    samples: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    # samples that PyTorch's own trace of the operator gets wrong too
    known: list[str] = dataclasses.field(default_factory=list)
    fallbacks: set[str] = dataclasses.field(default_factory=set)
    eager: bool = False  # a graph, or the code between graphs, ran in PyTorch
    kernels: int = 0

    @property
    def where(self) -> str:
        """The key of PLACES that says where the operator ran."""
        if not self.fallbacks and not self.eager:
            return "own"
        return "partly" if self.kernels else "fallback"


def check(
    op: Any,
    dtype: torch.dtype,
    limit: int,
    dynamic: bool = False,
    form: str = "function",
) -> Outcome:
    """Compiles the samples and compares them with eager."""
    outcome = Outcome()
    expected = list(eager(samples(op, dtype, limit, form)))
    outcome.samples = len(expected)
    if not expected:
        return outcome
    try:
        _compare_together(expected, dynamic, outcome)
    except Exception:  # noqa: BLE001 - any failure is tried alone
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
    """A backend that lets PyTorch run the graph that the compiler would get."""
    return aot.aot(module, inputs, lambda graph, _, __: _run_as_traced(graph), False)


def _run_as_traced(graph: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    """Runs a graph, with results in the layout of the trace."""
    run = backend.run_eagerly(graph)
    [end] = [node for node in graph.graph.nodes if node.op == "output"]
    traced = [getattr(node, "meta", {}).get("val") for node in end.args[0]]

    def call(arguments: list[Any]) -> Any:
        inputs = {t.data_ptr() for t in tree_leaves(arguments) if torch.is_tensor(t)}
        return [
            result
            if not torch.is_tensor(result)
            or result.layout is not torch.strided
            or result.untyped_storage().data_ptr() in inputs
            else _laid_out(result, [_known(s) for s in value.stride()])
            for result, value in zip(run(arguments), traced)
        ]

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _laid_out(tensor: torch.Tensor, strides: list[int]) -> torch.Tensor:
    if list(tensor.stride()) == strides or overlaps(tensor.shape, strides):
        return tensor
    return tensor.new_empty_strided(tensor.shape, strides).copy_(tensor)


def _known(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def _is_traced_wrongly(sample: Sample, wanted: Tensors, dynamic: bool) -> bool:
    try:
        [actual] = run_together([sample], dynamic, _traced)
        compare(sample, actual, wanted)
    except Exception:  # noqa: BLE001 - any error is PyTorch's
        return True
    return False


def eager(found: list[Sample]) -> Iterator[tuple[Sample, Tensors]]:
    """The samples that eager runs, with their results."""
    for sample in found:
        try:
            result = sample()
        except Exception:  # noqa: BLE001, S112 - what eager refuses needs no answer
            continue
        if len(result) > len(sample.tensors):
            yield sample, result


def _compare_together(
    expected: list[tuple[Sample, Tensors]], dynamic: bool, outcome: Outcome
) -> None:
    anabranch.counters.reset()
    got = run_together([sample for sample, _ in expected], dynamic)
    _count(outcome)
    for (sample, wanted), actual in zip(expected, got, strict=True):
        compare(sample, actual, wanted)


def run_together(
    found: list[Sample], dynamic: bool, by: Callable[..., Any] = anabranch.anabranch
) -> list[Tensors]:
    """The results of all samples, from one function that this backend compiles."""
    torch._dynamo.reset()
    functions = [sample.function for sample in found]
    starts = [0, *itertools.accumulate(len(sample.tensors) for sample in found)]

    def together(*tensors: torch.Tensor) -> list[Tensors]:
        return [
            function(*tensors[start:end])
            for function, start, end in zip(functions, starts, starts[1:])
        ]

    compiled = torch.compile(together, backend=by, dynamic=dynamic)
    given = [copied(tensor) for sample in found for tensor in sample.tensors]
    differentiated = any(sample.differentiated for sample in found)
    torch.manual_seed(0)
    with torch.set_grad_enabled(differentiated), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return finished(found, compiled(*given), given)


def _count(outcome: Outcome) -> None:
    report = anabranch.last_report() or {}
    outcome.fallbacks |= {entry["op"] for entry in report.get("fallbacks", [])}
    counters = anabranch.counters
    if counters.fallback_calls and not outcome.fallbacks:
        outcome.fallbacks.add("in an earlier graph")
    outcome.eager |= counters.graphs == 0 or counters.eager_graphs > 0
    outcome.kernels += counters.kernels
