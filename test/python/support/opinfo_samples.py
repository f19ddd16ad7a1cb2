"""Calls of operators as functions of tensors, with their results.

The results of a sample are those of the operator; then, for a differentiated call, the
gradients of its tensors; then the tensors themselves after the call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

Tensors = list[torch.Tensor]


@dataclasses.dataclass
class Call:
    """The arguments of a sample, as OpInfo's SampleInput has them."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclasses.dataclass
class Sample:
    """A call of an operator as a function of its tensors."""

    function: Callable[..., Tensors]
    tensors: Tensors
    differentiated: bool = False

    def __call__(
        self,
        seed: int = 0,
        convert: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
    ) -> Tensors:
        """Eager's results. `convert` changes the tensors first."""
        torch.manual_seed(seed)
        given = [copied(tensor, convert) for tensor in self.tensors]
        with torch.set_grad_enabled(self.differentiated):
            return finished([self], [self.function(*given)], given)[0]


def as_sample(
    call: Callable[..., Any], item: Any, differentiated: bool = False
) -> Sample:
    """`item` is a SampleInput or a Call."""
    flat, spec = tree_flatten((item.input, item.args, item.kwargs))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]
    arguments = tree_unflatten([f"v{i}" for i in range(len(flat))], spec)
    function = _written(call, flat, places, *arguments)
    return Sample(function, [flat[place] for place in places], differentiated)


def _written(
    call: Callable[..., Any],
    values: Sequence[Any],
    places: Sequence[int],
    first: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Callable[..., Tensors]:
    """The call as a function of the values at `places`. The names of values are in the
    place of the values in `first`, `args` and `kwargs`. The call is written out, since
    Dynamo takes longer to trace a loop over arguments than to trace the operator."""
    given = ", ".join(f"v{place}" for place in places)
    others = [i for i in range(len(values)) if i not in places]
    words = [_word(argument) for argument in (first, *args)]
    words += [f"**{_word(kwargs)}"] if kwargs else []
    source = f"""
def bind(call, leaves, {"".join(f"v{i}, " for i in others)}):
    def function({given}):
        return leaves(call({", ".join(words)}))
    return function
"""
    scope: dict[str, Any] = {}
    exec(source, scope)  # noqa: S102
    return scope["bind"](call, _tensors, *(values[i] for i in others))


def _word(value: Any) -> str:
    """The source text of a structure of names."""
    if type(value) is dict:
        pairs = (f"{key!r}: {_word(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if type(value) is list:
        return f"[{', '.join(map(_word, value))}]"
    if type(value) is tuple:
        return f"({''.join(f'{_word(item)}, ' for item in value)})"
    assert isinstance(value, str), f"no sample has arguments in a {type(value)}"
    return value


def _tensors(result: Any) -> Tensors:
    if torch.is_tensor(result):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _tensors(part)]
    return [leaf for leaf in tree_flatten(result)[0] if torch.is_tensor(leaf)]


def copied(
    tensor: torch.Tensor,
    convert: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
) -> torch.Tensor:
    """A leaf with memory of its own and the same layout."""
    source = tensor.detach()
    plain = type(source) is torch.Tensor and source.layout is torch.strided
    if not plain or source.is_conj() or source.is_neg() or source.is_quantized:
        return convert(source.clone()).requires_grad_(tensor.requires_grad)
    count = source.untyped_storage().nbytes() // max(source.element_size(), 1)
    memory = convert(source.as_strided([count], [1], 0).clone())
    lies = (source.storage_offset(), source.shape, source.stride())
    made = memory.new_empty(0).set_(memory.untyped_storage(), *lies)
    return made.requires_grad_(tensor.requires_grad)


def finished(
    samples: Sequence[Sample], returned: Sequence[Tensors], given: Tensors
) -> list[Tensors]:
    """The results of each sample. `given` has the tensors of all samples."""
    gradients = _gradients(samples, returned, given)
    results, start = [], 0
    for sample, outputs in zip(samples, returned):
        own = slice(start, start + len(sample.tensors))
        start = own.stop
        wanted = [g for g, t in zip(gradients[own], given[own]) if t.requires_grad]
        results.append([t.detach() for t in (*outputs, *wanted, *given[own])])
    return results


def _gradients(
    samples: Sequence[Sample], returned: Sequence[Tensors], given: Tensors
) -> list[torch.Tensor]:
    """The gradients of the outputs' products with random numbers, one for each tensor."""
    if not any(sample.differentiated for sample in samples):
        return given
    outputs = [t for results in returned for t in results if t.requires_grad]
    leaves = [tensor for tensor in given if tensor.requires_grad]
    if not outputs or not leaves:
        raise ValueError("nothing depends on what asks for a gradient")
    factors = [_factors(output) for output in outputs]
    found = torch.autograd.grad(outputs, leaves, factors, materialize_grads=True)
    named = iter(found)
    return [next(named) if tensor.requires_grad else tensor for tensor in given]


def _factors(output: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    wide = torch.complex64 if output.is_complex() else torch.float32
    return torch.randn(output.shape, dtype=wide, generator=generator).to(output.dtype)
