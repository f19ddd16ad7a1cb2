"""Operators that PyTorch runs, with arguments of each kind, through its C interface."""

from collections.abc import Callable

import torch

import anabranch

SQUARE = torch.randn(6, 6, dtype=torch.float64)
ROWS = torch.randn(4, 9)
IMAGE, SAMPLES = torch.randn(1, 2, 8, 8), torch.rand(1, 2, 2)
CALLS: dict[str, Callable[[], object]] = {
    "two tensors": lambda: torch.linalg.qr(SQUARE),
    "a bool": lambda: torch.linalg.svd(ROWS, full_matrices=False)[1],
    "a string": lambda: torch.linalg.qr(SQUARE, mode="r")[1],
    "a double": lambda: torch.nn.functional.pdist(ROWS, p=1.5),
    "a bool beside an int": lambda: torch.kthvalue(ROWS, 3, 1, True),
    "lists of ints": lambda: torch.nn.functional.fractional_max_pool2d(
        IMAGE, 2, output_size=(3, 3), _random_samples=SAMPLES
    ),
    "a double and a string, each optional": lambda: torch.linalg.lstsq(
        SQUARE, SQUARE, rcond=1e-9, driver="gelsd"
    )[0],
    "a string and a tensor, each optional": lambda: torch.searchsorted(
        ROWS, ROWS, sorter=ROWS.sort(1)[1], side="right"
    ),
    "a tensor alone": lambda: torch.special.bessel_j0(ROWS),
}

for name, call in CALLS.items():
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="anabranch")
    torch.testing.assert_close(compiled(), call(), atol=1e-5, rtol=1e-5, msg=name)
    print(name, len(anabranch.last_report()["fallbacks"]), flush=True)
