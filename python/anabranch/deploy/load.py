"""anabranch.load: packages that run without PyTorch and without the compiler."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .. import _C
from . import arrays, trees


def load(
    path: str | os.PathLike[str],
    *,
    threads: int = 0,
    target: str | None = None,
    check_hashes: bool = True,
) -> Package:
    """Opens a package that `anabranch.export` wrote.

    threads       workers of a call; 0: one for each core, and no more than the
                  CPU quota of the container allows.
    target        one of the package's processors; None: what ANABRANCH_TARGET
                  says, else the best that this CPU can run.
    check_hashes  reads all weights once, to see that they are as they were
                  written.
    """
    folder = os.path.abspath(os.fspath(path))
    # Operators that only PyTorch has; without it the loader names them.
    has_torch = importlib.util.find_spec("torch") is not None
    executable = _C.Executable(
        folder,
        threads=threads,
        check_hashes=check_hashes,
        target=target or "",
        host_calls=has_torch,
    )
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if "signature" not in manifest:
        raise ValueError(f"{folder} has no signature: anabranch.export writes one")
    return Package(executable, Signature(manifest["signature"]))


class Signature:
    """What the arguments and results of a package are called."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.inputs: list[str] = [entry["name"] for entry in described["inputs"]]
        self.outputs: list[str] = list(described["outputs"])
        self.states = [n for n, e in enumerate(described["inputs"]) if e["state"]]
        self.parameters: dict[str, Any] = {}
        for parameter in described.get("parameters", []):
            trees.check(parameter["tree"], len(self.inputs))
            self.parameters[parameter["name"]] = parameter
        self.results = described.get("results", {"tuple": []})
        trees.check(self.results, len(self.outputs))

        # Positional arguments that are the inputs, in order, need no binding.
        self.is_plain = not self.states and [
            p["tree"] for p in self.parameters.values() if not p.get("keyword")
        ] == list(range(len(self.inputs)))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in order; those of states stay None."""
        if self.is_plain and not kwargs and len(args) == len(self.inputs):
            return list(args)
        values: list[Any] = [None] * len(self.inputs)
        names = list(self.parameters)
        positional = [n for n in names if not self.parameters[n].get("keyword")]
        if len(args) > len(positional):
            raise TypeError(
                f"expected at most {len(positional)} positional arguments, "
                f"got {len(args)}"
            )
        given = dict(zip(positional, args))
        for name, value in kwargs.items():
            if name not in self.parameters:
                known = ", ".join(names) or "none"
                raise TypeError(f"unknown argument {name!r}; known: {known}")
            if name in given:
                raise TypeError(f"the argument {name!r} is given twice")
            given[name] = value
        for name, parameter in self.parameters.items():
            tree = parameter["tree"]
            # A fixed value need not be repeated.
            if name not in given and isinstance(tree, dict) and "value" in tree:
                continue
            if name not in given:
                raise TypeError(f"the argument {name!r} is missing")
            trees.take(tree, given[name], name, values.__setitem__)
        return values


class State(Mapping[str, Any]):
    """What a model keeps from call to call: one NumPy array for each name, which
    may be read and written between calls."""

    def __init__(self, executable: _C.Executable, names: Mapping[str, int]) -> None:
        self._places = {}
        for name, number in names.items():
            info = executable.inputs[number]
            memory = executable.initial(number)
            self._places[name] = (memory, info["dtype"], tuple(info["shape"]))

    def __getitem__(self, name: str) -> Any:
        memory, dtype, shape = self._places[name]
        return arrays.from_memory(memory, dtype, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def pair(self, name: str) -> tuple[Any, str]:
        memory, dtype, shape = self._places[name]
        return arrays.plain(memory, dtype, shape), dtype

    def tensor(self, name: str) -> Any:
        memory, dtype, shape = self._places[name]
        return arrays.as_tensor(memory, dtype, shape)


class Package:
    """A loaded package, called as the module that it was made of. Arguments are
    NumPy arrays or tensors; results are of the same kind. Any number of threads
    may call one that has no state."""

    def __init__(self, executable: _C.Executable, signature: Signature) -> None:
        self._executable = executable
        self._signature = signature
        self._infos = executable.inputs
        names = {signature.inputs[n]: n for n in signature.states}
        self.state = State(executable, names)

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Name, dtype and shape of each input, states included; -1 is any size."""
        return self._executable.inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self._executable.outputs

    @property
    def target(self) -> str:
        """The processor whose code runs."""
        return self._executable.target

    def session(self) -> Package:
        """The same package with state of its own, as it was exported."""
        return Package(self._executable, self._signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._signature.bind(args, kwargs)
        torch: Any = sys.modules.get("torch")
        tensors = torch and any(isinstance(v, torch.Tensor) for v in values)
        run = self._run_tensors if tensors else self._run_arrays
        return trees.build(self._signature.results, run(values))

    def _run_arrays(self, values: list[Any]) -> list[Any]:
        for number in self._signature.states:
            values[number] = self.state.pair(self._signature.inputs[number])
        pairs = [
            value
            if isinstance(value, tuple | int)
            else arrays.read(value, self._infos[number])
            for number, value in enumerate(values)
        ]
        results = self._executable.run_arrays(pairs, arrays.make)
        infos = self._executable.outputs
        return [arrays.finish(r, info["dtype"]) for r, info in zip(results, infos)]

    def _run_tensors(self, values: list[Any]) -> list[Any]:
        _C.use_torch()
        for number in self._signature.states:
            values[number] = self.state.tensor(self._signature.inputs[number])
        try:
            return list(self._executable(values))
        except ValueError:
            # Nothing was written yet. Other strides than the program's cost a
            # copy; all else is the caller's mistake.
            laid = [arrays.lay_out(v, i) for v, i in zip(values, self._infos)]
            if all(new is old for new, old in zip(laid, values)):
                raise
        return list(self._executable(laid))
