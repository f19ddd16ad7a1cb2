"""anabranch.load: opens packages that run without PyTorch and without the compiler."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from .. import _C
from . import arrays, trees
from .array_package import ArrayPackage
from .signature import read_signature


def load(
    path: str | os.PathLike[str],
    *,
    threads: int = 0,
    target: str | None = None,
    check_hashes: bool = True,
    trust: str | None = None,
) -> Package:
    """Opens a package that `anabranch.export` wrote.

    path          the package's folder
    threads       workers of a call; 0: one for each core, and no more than the CPU
                  quota of the container allows
    target        one of the package's processors; None: what ANABRANCH_TARGET says,
                  else the best that this CPU can run
    check_hashes  reads all weights once, and refuses a file that was changed
    trust         whose packages are opened, since a package is code: "user" (those of
                  this user or root that nobody else may write), "group" (also those
                  that a group of this process owns or may write, and links) or
                  "anyone"; None: what ANABRANCH_TRUST says, else "user"

    Returns a Package. RuntimeError: there is no package, it is damaged or not trusted,
    or this machine cannot run it. ValueError: the package was not exported.
    """
    folder = os.path.abspath(os.fspath(path))
    # A program may have operators that only PyTorch has. Without PyTorch the loader
    # refuses it and names them.
    has_torch = importlib.util.find_spec("torch") is not None
    executable = _C.Executable(
        folder,
        threads=threads,
        check_hashes=check_hashes,
        target=target or "",
        host_calls=has_torch,
        trust=trust or "",
    )
    if any(info["kind"] == "external" for info in executable.outputs):
        _C.use_torch()  # which makes results whose size the run finds
    return Package(executable, read_signature(folder))


class Package(ArrayPackage):
    """A loaded package, called with the arguments of the exported module.

    Arguments are NumPy arrays or tensors, and results are of the same kind. TypeError,
    ValueError: an argument is missing, unknown, or of a wrong type or shape. Any number
    of threads may call a package without state.
    """

    def session(self) -> Package:
        """The same package with a state of its own, which has the values of the export."""
        return Package(self._executable, self._signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._signature.bind(args, kwargs)
        torch: Any = sys.modules.get("torch")
        tensors = torch and any(isinstance(v, torch.Tensor) for v in values)
        run = self._run_tensors if tensors else self._run_arrays
        return trees.build(self._signature.results, run(values))

    def _run_tensors(self, values: list[Any]) -> list[Any]:
        _C.use_torch()
        for number in self._signature.states:
            values[number] = as_tensor(
                *self.state.place(self._signature.inputs[number])
            )
        try:
            return list(self._executable(values))
        except ValueError:
            # Nothing was written yet. A tensor with other strides than the program's is
            # copied; the runtime refuses any other mistake.
            laid = [arrays.lay_out(v, i) for v, i in zip(values, self._infos)]
            if all(new is old for new, old in zip(laid, values)):
                raise
        return list(self._executable(laid))


def as_tensor(memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor over memory."""
    import torch

    from ..describe.tensors import DTYPES

    kind = next(theirs for theirs, ours in DTYPES.items() if ours == dtype)
    return torch.frombuffer(memory, dtype=kind).reshape(shape)
