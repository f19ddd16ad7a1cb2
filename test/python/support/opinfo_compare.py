"""Compares a sample's results with eager's: dtype, sizes, strides, memory, values."""

from __future__ import annotations

import torch
from opinfo_samples import Sample, Tensors

# Relative and absolute tolerance, as fractions of the accurate result.
TOLERANCES = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 2e-5),
    torch.float16: (4e-3, 2e-3),
    torch.bfloat16: (2e-2, 1e-2),
    torch.complex128: (1e-6, 1e-7),
    torch.complex64: (1e-4, 2e-5),
    torch.complex32: (4e-3, 2e-3),
}

ACCURATE = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}


def compare(sample: Sample, actual: Tensors, wanted: Tensors) -> None:
    """AssertionError: a result is neither equal within the dtype's tolerance, nor as
    near to the result in double precision as eager is."""
    assert len(actual) == len(wanted), f"{len(actual)} results, not {len(wanted)}"
    accurate: Tensors | None = None
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
    _compare_memory(actual, wanted, len(sample.tensors))


def _compare_memory(actual: Tensors, wanted: Tensors, inputs: int) -> None:
    """Compares strides, and which input each result shares memory with."""
    results = len(wanted) - inputs
    for ours, eager in zip(actual[:results], wanted[:results]):
        assert _strides(ours) == _strides(eager), (
            f"strides {ours.stride()}, not {eager.stride()}"
        )
    ours, eager = _places(actual, results), _places(wanted, results)
    assert ours == eager, f"results lie in inputs and at {ours}, not {eager}"


def _strides(tensor: torch.Tensor) -> list[int] | None:
    """The strides of dimensions with more than one element."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    pairs = zip(tensor.shape, tensor.stride())
    return [stride for size, stride in pairs if size > 1]


def _places(tensors: Tensors, results: int) -> list[tuple[int, int] | None]:
    """For each result: the first input that it shares memory with, and its place there."""
    owners: dict[int, int] = {}
    for position, tensor in enumerate(tensors[results:]):
        if _has_memory(tensor):
            owners.setdefault(tensor.untyped_storage()._cdata, position)
    found: list[tuple[int, int] | None] = []
    for tensor in tensors[:results]:
        has = _has_memory(tensor) and tensor.untyped_storage()._cdata in owners
        owner = owners[tensor.untyped_storage()._cdata] if has else 0
        found.append((owner, tensor.storage_offset()) if has else None)
    return found


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() > 0


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a layout and dtype that PyTorch itself can compare."""
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return dense.to(torch.complex64) if dense.dtype is torch.complex32 else dense


def _is_close(ours: torch.Tensor, eager: torch.Tensor) -> bool:
    dtype = ours.dtype
    ours, eager = _comparable(ours), _comparable(eager)
    if dtype not in TOLERANCES:
        return torch.equal(ours, eager)
    relative, absolute = TOLERANCES[dtype]
    return torch.allclose(ours, eager, relative, absolute, equal_nan=True)


def _is_repeatable(sample: Sample, wanted: Tensors) -> bool:
    """Whether another seed gives the same result. Random numbers do not."""
    again = sample(seed=1)
    return all(a.dtype == b.dtype and _is_same(a, b) for a, b in zip(again, wanted))


def _is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = _comparable(left), _comparable(right)
    return left.shape == right.shape and torch.allclose(left, right, equal_nan=True)


def _accurately(sample: Sample) -> Tensors:
    """The results in double precision; none if PyTorch has no kernel for it."""
    try:
        return sample(convert=lambda t: t.to(ACCURATE.get(t.dtype, t.dtype)))
    except Exception:  # noqa: BLE001 - it names its dtype, or there is no kernel
        return []


def _is_nearer(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether the error is at most twice eager's largest error."""
    if ours.dtype not in TOLERANCES or exact.shape != ours.shape:
        return False
    relative, absolute = TOLERANCES[ours.dtype]
    ours, eager, exact = map(_as_reals, (ours, eager, exact))
    finite = torch.isfinite(exact) & torch.isfinite(eager) & torch.isfinite(ours)
    if not torch.equal(torch.isnan(ours), torch.isnan(eager)):
        return False
    scale = exact[finite].abs()
    ours_error = (ours - exact)[finite].abs()
    eager_error = (eager - exact)[finite].abs()
    allowed = 2 * eager_error.max() if eager_error.numel() else 0.0
    return bool((ours_error <= allowed + absolute + relative * scale).all())


def _as_reals(tensor: torch.Tensor) -> torch.Tensor:
    dense = _comparable(tensor)
    if dense.is_complex():
        dense = torch.view_as_real(dense.resolve_conj())
    return dense.double()
