"""What eager PyTorch refuses, a compiled call refuses: options, dtypes, and values that
PyTorch's meta kernels and decompositions do not check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from checking import compiled

from anabranch import counters
from anabranch.capture import aot

functional = torch.nn.functional

F = torch.linspace(-2, 3, 12).view(3, 4)
U = torch.arange(12, dtype=torch.uint8).view(3, 4)
N = torch.arange(12).view(3, 4)
MASK = torch.arange(12).view(3, 4) % 2 == 0
ROW = torch.tensor([0])
HALF, WIDE = F.half(), F.double()
IMAGE, KERNEL = F.view(1, 1, 3, 4), torch.ones(1, 1, 2, 2)

# Each pair: a call that eager PyTorch takes, and one like it that it refuses.
PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "celu": (lambda: functional.celu(F, 0.5), lambda: functional.celu(F, 0.0)),
    "celu_": (lambda: torch.celu_(F + 1, 0.5), lambda: torch.celu_(F + 1, 0.0)),
    "smooth_l1_loss": (
        lambda: functional.smooth_l1_loss(F, F + 1, beta=0.0),
        lambda: functional.smooth_l1_loss(F, F + 1, beta=-1.0),
    ),
    "clamp, f16": (lambda: HALF.clamp(max=65504.0), lambda: HALF.clamp(max=1e6)),
    "clamp, infinite": (
        lambda: HALF.clamp(max=float("inf")),
        lambda: HALF.clamp(min=-1e6),
    ),
    "clamp, NaN": (lambda: HALF.clamp(float("nan"), 1e6), lambda: HALF.clamp(0, 1e6)),
    "clamp, bytes": (lambda: U.clamp(max=255), lambda: U.clamp(max=256)),
    "clamp, promoted": (lambda: U.clamp(max=300.5), lambda: U.clamp(1, 300)),
    "clamp, wrapped": (lambda: U.clamp(min=-1), lambda: U.clamp(min=-256)),
    "fill_": (lambda: U.clone().fill_(-1), lambda: U.clone().fill_(300)),
    "full": (
        lambda: torch.full((2,), 255, dtype=torch.uint8) + ROW,
        lambda: torch.full((2,), 300, dtype=torch.uint8) + ROW,
    ),
    "full_like": (
        lambda: torch.full_like(HALF, 5e4),
        lambda: torch.full_like(HALF, 1e5),
    ),
    "masked_fill": (
        lambda: HALF.masked_fill(MASK, -6e4),
        lambda: HALF.masked_fill(MASK, -1e9),
    ),
    "masked_fill, bytes": (
        lambda: U.masked_fill(MASK, 3),
        lambda: U.masked_fill(MASK, 300),
    ),
    "index_fill": (lambda: U.index_fill(0, ROW, 3), lambda: U.index_fill(0, ROW, 300)),
    "scatter": (
        lambda: U.scatter(0, N[:1] % 3, 3),
        lambda: U.scatter(0, N[:1] % 3, 300),
    ),
    "pad": (
        lambda: functional.pad(U, (1, 1)),
        lambda: functional.pad(U, (1, 1), value=300),
    ),
    "threshold": (
        lambda: functional.threshold(U, 1, 3),
        lambda: functional.threshold(U, 1, 300),
    ),
    "floor_divide": (lambda: N // 2, lambda: N // 0),
    "div, trunc": (
        lambda: torch.div(N, 2, rounding_mode="trunc"),
        lambda: torch.div(N, 0, rounding_mode="trunc"),
    ),
    "div, floats": (lambda: F // 0, lambda: N // 0),
    "addmm, sizes": (
        lambda: torch.addmm(F[:1, :1], F[:1, :1], F[:1, :1]),
        lambda: torch.addmm(F[:, :1], F[:1, :1], F[:1, :1]),
    ),
    "addmm, dtypes": (
        lambda: torch.addmm(F[:, :3], F, F.mT),
        lambda: torch.addmm(HALF[:, :3], F, F.mT),
    ),
    "addmv, sizes": (
        lambda: torch.addmv(F[0, :3], F, F[0]),
        lambda: torch.addmv(F[0], F, F[0]),
    ),
    "mv, dtypes": (lambda: F @ F[0], lambda: HALF @ F[0]),
    "frac": (lambda: F.frac(), lambda: N.frac()),
    "hardsigmoid": (
        lambda: functional.hardsigmoid(F),
        lambda: functional.hardsigmoid(N),
    ),
    "hardswish": (lambda: functional.hardswish(F), lambda: functional.hardswish(N)),
    "lerp": (lambda: F.lerp(F + 1, 0.5), lambda: N.lerp(N + 1, 0.5)),
    "logsigmoid": (lambda: functional.logsigmoid(F), lambda: functional.logsigmoid(N)),
    "mish": (lambda: functional.mish(F), lambda: functional.mish(N)),
    "softplus": (lambda: functional.softplus(F), lambda: functional.softplus(N)),
    "pow, bools": (lambda: MASK**N, lambda: MASK**MASK),
    "layer_norm": (
        lambda: functional.layer_norm(HALF, (4,), F[0], F[1]),
        lambda: functional.layer_norm(F, (4,), HALF[0]),
    ),
    "layer_norm, wide": (
        lambda: functional.layer_norm(WIDE, (4,), WIDE[0]),
        lambda: functional.layer_norm(WIDE, (4,), F[0]),
    ),
    "group_norm": (
        lambda: functional.group_norm(F.mT, 1, F[0, :3], F[1, :3]),
        lambda: functional.group_norm(F, 2, HALF[0]),
    ),
    "dilation": (
        lambda: functional.conv2d(IMAGE, KERNEL, dilation=2),
        lambda: functional.conv2d(IMAGE, KERNEL, dilation=0),
    ),
    "output_padding": (
        lambda: functional.conv_transpose2d(IMAGE, KERNEL, None, 2, 0, 1),
        lambda: functional.conv_transpose2d(IMAGE, KERNEL, None, 1, 0, 1),
    ),
    "index_add": (
        lambda: F.index_add(0, ROW, F[:1]),
        lambda: F.index_add(0, ROW, N[:1]),
    ),
    "softmax": (lambda: F.softmax(1), lambda: F.softmax(2)),
    "softmax, from the end": (lambda: F.log_softmax(-2), lambda: F.log_softmax(-3)),
    "softmax, of a number": (lambda: F[0, 0].softmax(-1), lambda: F[0, 0].softmax(1)),
    "sort": (lambda: F.sort(1), lambda: F.sort(2)),
    "slice_scatter": (lambda: F.slice_scatter(F, 1), lambda: F.slice_scatter(F, 2)),
    "binary_cross_entropy": (
        lambda: functional.binary_cross_entropy(F.sigmoid(), F.sigmoid()),
        lambda: functional.binary_cross_entropy(F.sigmoid(), F),
    ),
    "binary_cross_entropy, input": (
        lambda: functional.binary_cross_entropy(F.sigmoid(), F.sigmoid(), F[0]),
        lambda: functional.binary_cross_entropy(F, F.sigmoid()),
    ),
    "bernoulli": (lambda: torch.bernoulli(F.sigmoid()), lambda: torch.bernoulli(F)),
    "max_unpool2d": (
        lambda: functional.max_unpool2d(IMAGE, N.view(1, 1, 3, 4), 2),
        lambda: functional.max_unpool2d(IMAGE, N.view(1, 1, 3, 4) - 1, 2),
    ),
    "logaddexp": (lambda: torch.logaddexp(F, N), lambda: torch.logaddexp(N, N)),
    "heaviside": (lambda: torch.heaviside(F, F), lambda: torch.heaviside(F, WIDE)),
    "complex": (lambda: torch.complex(F, F), lambda: torch.complex(F, WIDE)),
    "topk": (lambda: N.topk(1), lambda: MASK.topk(1)),
    "clamp, bools": (lambda: N.clamp(0, 1), lambda: MASK.clamp(MASK, MASK)),
    "threshold, negative": (
        lambda: functional.threshold(F, 1, -1.5),
        lambda: functional.threshold(U, 1, -1.5),
    ),
    "dot": (lambda: N[0].dot(N[1]), lambda: MASK[0].dot(MASK[1])),
    "glu": (lambda: functional.glu(F), lambda: functional.glu(N)),
    "nearest": (
        lambda: functional.interpolate(U[None], scale_factor=2),
        lambda: functional.interpolate(N[None], scale_factor=2),
    ),
    "avg_pool3d": (
        lambda: functional.avg_pool3d(IMAGE, (1, 1, 2)),
        lambda: functional.avg_pool3d(IMAGE.half(), (1, 1, 2)),
    ),
    "max_pool1d": (
        lambda: functional.max_pool1d(F, 2),
        lambda: functional.max_pool1d(N, 2),
    ),
    "nll_loss": (
        lambda: functional.nll_loss(F, N[0, :3]),
        lambda: functional.nll_loss(F, N[0, :3].int()),
    ),
    "binary_cross_entropy, dtypes": (
        lambda: functional.binary_cross_entropy(MASK.float(), MASK.float()),
        lambda: functional.binary_cross_entropy(MASK.float(), MASK.double()),
    ),
    "batch_norm": (
        lambda: functional.batch_norm(HALF, F[0], F[0].abs()),
        lambda: functional.batch_norm(F, WIDE[0], WIDE[0].abs()),
    ),
    "cross": (
        lambda: torch.linalg.cross(F, F, dim=0),
        lambda: torch.linalg.cross(F, WIDE, dim=0),
    ),
    "index_select": (
        lambda: F.index_select(0, ROW.int()),
        lambda: F.index_select(0, ROW.byte()),
    ),
    "masked_scatter": (
        lambda: F.masked_scatter(MASK, WIDE.float()),
        lambda: F.masked_scatter(MASK.byte(), F),
    ),
    "masked_fill, rare": (
        lambda: U.masked_fill(MASK, 1),
        lambda: U.to(torch.uint16).masked_fill(MASK, 1),
    ),
    "out": (
        lambda: torch.aminmax(F, out=(F.new_zeros(()), F.new_zeros(()))),
        lambda: torch.aminmax(F, out=(F.new_zeros(()), WIDE.new_zeros(()))),
    ),
    "out, converted": (
        lambda: torch.exp(F, out=WIDE.clone()),
        lambda: torch.exp(WIDE, out=N.clone()),
    ),
    "binary_cross_entropy, NaN": (
        lambda: functional.binary_cross_entropy(MASK.float(), MASK.float()),
        lambda: functional.binary_cross_entropy(F.log().sigmoid(), MASK.float()),
    ),
}


def outcome(function: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    try:
        return function()
    except (IndexError, RuntimeError) as error:
        return error


@pytest.mark.parametrize("name", PAIRS)
def test_a_compiled_call_refuses_what_eager_pytorch_refuses(name: str) -> None:
    good, bad = PAIRS[name]
    assert isinstance(outcome(bad), Exception), "the case tests nothing"
    for dynamic in (False, True):
        assert isinstance(outcome(compiled(bad, dynamic=dynamic)), Exception)
    torch.testing.assert_close(outcome(compiled(good)), outcome(good), equal_nan=True)


# Each: a function of a tensor and a number, two numbers that eager PyTorch takes, and one
# that it refuses.
NUMBERS: dict[str, tuple[Callable[[Any, Any], Any], torch.Tensor, list[Any]]] = {
    "celu": (functional.celu, F, [0.5, 1.5, 0.0]),
    "celu, size": (lambda x, n: functional.celu(x, n - 3), F, [4, 5, 3]),
    "smooth_l1_loss": (
        lambda x, b: functional.smooth_l1_loss(x, x + 1, beta=b),
        F,
        [0.5, 1.5, -1.0],
    ),
    "floor_divide": (lambda x, n: x // n, N, [2, 3, 0]),
    "clamp": (lambda x, n: x.clamp(max=n), U, [2, 3, 300]),
    "masked_fill": (lambda x, n: x.masked_fill(x > 3, n), U, [2, 3, 300]),
    "full": (lambda x, n: torch.full((2,), n, dtype=x.dtype), U, [2, 3, 300]),
    "pow": (lambda x, n: x**n, N, [2, 3, -1]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_changes_is_refused_when_it_is_wrong(name: str) -> None:
    function, x, numbers = NUMBERS[name]
    run = compiled(function, dynamic=True)
    for number in numbers[:2]:
        torch.testing.assert_close(run(x, number), function(x, number))
    for call in (function, run):
        with pytest.raises(RuntimeError):
            call(x, numbers[2])
    torch.testing.assert_close(run(x, numbers[0]), function(x, numbers[0]))


def test_the_error_is_that_of_eager_pytorch() -> None:
    run = compiled(lambda x, y: torch.addmm(x, y, y))
    with pytest.raises(RuntimeError, match="must match the existing size"):
        run(torch.ones(5, 1), torch.ones(1, 1))


def test_sizes_that_may_be_equal_are_no_refusal() -> None:
    run = compiled(lambda x, y: torch.addmm(x, y, y), dynamic=True)
    for rows in (3, 5):
        x, y = torch.ones(rows, rows), torch.eye(rows)
        torch.testing.assert_close(run(x, y), torch.addmm(x, y, y))
    assert counters.eager_graphs == 0


def test_a_trained_loss_of_probabilities_is_checked() -> None:
    loss = functional.binary_cross_entropy
    run = compiled(loss)
    for value in (0.5, 0.25):
        ours = torch.full((4,), 0.5, requires_grad=True)
        theirs = ours.detach().clone().requires_grad_()
        run(ours, torch.full((4,), value)).backward()
        loss(theirs, torch.full((4,), value)).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
        with pytest.raises(RuntimeError, match="all elements of target"):
            run(ours, torch.full((4,), value + 1))


def test_a_refused_graph_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    trace = aot.aot_module_simplified

    def counted(*arguments: Any, **how: Any) -> Any:
        traces.append(how)
        return trace(*arguments, **how)

    monkeypatch.setattr(aot, "aot_module_simplified", counted)
    with pytest.raises(RuntimeError), torch.no_grad():
        compiled(lambda x: functional.celu(x, 0.0))(F)
    assert len(traces) == 1
