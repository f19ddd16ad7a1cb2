"""Calls a package with NumPy arrays. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from . import arrays, trees
from .signature import Signature


class Runs(Protocol):
    """The interface of an executable: the binding's, or the C API's through ctypes.

    `inputs` and `outputs` are dicts with name, dtype, shape and strides; a size of -1
    may change from call to call.
    """

    @property
    def inputs(self) -> list[dict[str, Any]]: ...
    @property
    def outputs(self) -> list[dict[str, Any]]: ...
    @property
    def target(self) -> str: ...
    def initial(self, input: int) -> bytearray | None: ...
    def run_arrays(
        self, inputs: Sequence[Any], make: Callable[..., Any]
    ) -> list[Any]: ...


class State(Mapping[str, Any]):
    """The values that a model keeps from call to call: one NumPy array for each name,
    which may be read and written between calls."""

    def __init__(self, executable: Runs, names: Mapping[str, int]) -> None:
        self._executable, self._numbers = executable, dict(names)
        self._places: dict[str, tuple[bytearray, str, tuple[int, ...]]] = {}
        infos = executable.inputs
        for name, number in names.items():
            info = infos[number]
            memory = self._initial(name)
            self._places[name] = (memory, info["dtype"], tuple(info["shape"]))

    def _initial(self, name: str) -> bytearray:
        first = self._executable.initial(self._numbers[name])
        assert first is not None, f"{name} is a state"
        return first

    def __getitem__(self, name: str) -> Any:
        return arrays.from_memory(*self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def reset(self) -> None:
        """Gives all states the values that they had when the package was exported.
        Arrays that were taken out before change too."""
        for name, (memory, _, _) in self._places.items():
            memory[:] = self._initial(name)

    def pair(self, name: str) -> tuple[Any, str]:
        memory, dtype, shape = self._places[name]
        return arrays.plain(memory, dtype, shape), dtype

    def place(self, name: str) -> tuple[Any, str, tuple[int, ...]]:
        """Memory, dtype and shape of a state."""
        return self._places[name]


class ArrayPackage:
    """A loaded package, called with the arguments of the exported module.

    Arguments and results are NumPy arrays; ints and fixed values are passed as they
    are. TypeError, ValueError: an argument is missing, unknown, or of a wrong type or
    shape. Any number of threads may call a package without state.
    """

    def __init__(self, executable: Any, signature: Signature) -> None:
        self._executable = executable
        self._signature = signature
        self._infos = executable.inputs
        self._results = [info["dtype"] for info in executable.outputs]
        names = {signature.inputs[n]: n for n in signature.states}
        self.state = State(executable, names)

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Name, dtype and shape of each input, states included. A size of -1 may have
        any value."""
        return self._executable.inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Name, dtype and shape of each output."""
        return self._executable.outputs

    @property
    def target(self) -> str:
        """The processor whose code runs, by its name in the package."""
        return self._executable.target

    def arguments(
        self, values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments of a call, from the values of `inputs` by
        their names."""
        return self._signature.arguments(values)

    def session(self) -> ArrayPackage:
        """The same package with a state of its own, which has the values of the export."""
        return type(self)(self._executable, self._signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._signature.bind(args, kwargs)
        return trees.build(self._signature.results, self._run_arrays(values))

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
        return [arrays.finish(r, dtype) for r, dtype in zip(results, self._results)]
