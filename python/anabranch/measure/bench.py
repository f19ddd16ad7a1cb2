"""Benchmarks a package or a model: latency and throughput, one row for each shape."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import _C, __version__
from . import shapes as spelled
from .latency import Limits, measure
from .subject import SubjectError, is_package, load_model

ENGINES = ("anabranch", "eager", "inductor")
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of `anabranch bench`.

    `gears` are the shapes to measure, one after another; without any, the inputs' own.
    `arrays` are values of inputs by name. `options` are fields of Config.
    """

    engine: str = "anabranch"
    threads: int = 0
    callers: int = 1
    limits: Limits = dataclasses.field(default_factory=Limits)
    gears: Sequence[spelled.Shapes] = ()
    arrays: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Progress = Callable[[str, int, int], None]
Call = Callable[[], Any]


def bench(name: str, settings: Settings, progress: Progress | None = None) -> dict:
    """The record that `anabranch bench --json` writes. ValueError: a mistake of the
    user, or an error that a call raised."""
    runner = _Package if is_package(name) else _Compiled
    begin = time.perf_counter()
    with _failing(f"{name} can't be loaded", but=(ValueError, OSError)):
        subject = runner(name, settings)
    load_ms = (time.perf_counter() - begin) * 1e3
    gears = list(settings.gears) or [{}]
    for gear in gears:
        spelled.check_names(gear, subject.names, "--shape")
    spelled.check_names(settings.arrays, subject.names, "--input")
    runs = [_run(subject, gear, settings, progress) for gear in gears]
    return {
        "format": FORMAT,
        "subject": name,
        "engine": settings.engine,
        "threads": settings.threads or _C.default_threads(),
        "callers": settings.callers,
        "options": dict(settings.options),
        "machine": _machine(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "versions": _versions(),
        "load_ms": load_ms,
        "runs": runs,
    }


def _run(
    subject: Any, gear: spelled.Shapes, settings: Settings, progress: Progress | None
) -> dict[str, Any]:
    shapes, callers = subject.callers(gear)
    what = ", ".join(f"{name}={shape}" for name, shape in shapes.items())
    with _failing(f"the call fails for {what}"):
        with subject.quiet():
            subject.check(gear)
            begin = time.perf_counter()
            callers[0]()
        first_ms = (time.perf_counter() - begin) * 1e3
        done = measure(callers, settings.limits, progress, subject.prepare)
    return {"shapes": shapes, "first_ms": first_ms} | done.summary()


@contextlib.contextmanager
def _failing(what: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turns errors of the block, except `but`, into a ValueError that begins with
    `what`."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error


class _Package:
    """A package, called with NumPy arrays, or with tensors if NumPy lacks a dtype."""

    quiet = contextlib.nullcontext

    def __init__(self, name: str, settings: Settings) -> None:
        from ..deploy.load import load

        if settings.engine != "anabranch":
            raise ValueError(f"--engine {settings.engine} needs a model, not a package")
        if settings.options:
            raise ValueError(
                "--option needs a model: a package was compiled with its own"
            )
        if not os.path.isfile(os.path.join(name, "manifest.json")):
            raise ValueError(f"{name} is no package: it has no manifest.json")
        self._settings = settings
        self._package = load(name, threads=settings.threads)
        states = set(self._package.state)
        self._infos = [i for i in self._package.inputs if i["name"] not in states]
        self._tensors = any(i["dtype"].startswith(("bf", "f8")) for i in self._infos)
        self.names = [info["name"] for info in self._infos]

    def prepare(self) -> None:
        """Prepares the current thread: nothing to do."""

    def check(self, gear: spelled.Shapes) -> None:
        """A package checks its arguments at each call."""

    def callers(self, gear: spelled.Shapes) -> tuple[dict[str, str], Sequence[Call]]:
        values = {info["name"]: self._value(info, gear) for info in self._infos}
        args, kwargs = self._package.arguments(values)
        # Each caller has a state of its own.
        sessions = [self._package.session() for _ in range(self._settings.callers)]
        calls = [functools.partial(session, *args, **kwargs) for session in sessions]
        return _shapes_of(values), calls

    def _value(self, info: Mapping[str, Any], gear: spelled.Shapes) -> Any:
        """Normal values for floating-point inputs. Zeros for others: every table has
        the index 0."""
        name, dtype = info["name"], info["dtype"]
        if name in self._settings.arrays:
            return _given(name, self._settings, gear)
        if info["scalar"]:
            return 1
        shape = spelled.input_shape(info, gear)
        random = dtype.startswith(("f", "bf"))
        if self._tensors:
            import torch

            from ..describe.tensors import DTYPES

            kind = next(theirs for theirs, ours in DTYPES.items() if ours == dtype)
            values = torch.randn(shape) if random else torch.zeros(shape)
            return values.to(kind)
        import numpy

        from ..deploy import arrays

        array = arrays.make(dtype, shape, None)
        array[...] = numpy.random.default_rng(0).normal(size=shape) if random else 0
        return array


def _given(name: str, settings: Settings, gear: spelled.Shapes) -> Any:
    if name in gear:
        raise ValueError(f"{name!r} has both a --shape and an --input")
    return settings.arrays[name]


def _shapes_of(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: spelled.spell(value.shape)
        for name, value in values.items()
        if hasattr(value, "shape")
    }


class _Compiled:
    """A PyTorch model, called with tensors."""

    def __init__(self, name: str, settings: Settings) -> None:
        import torch

        self._settings = settings
        self._subject = load_model(name)
        self._arguments = self._subject.parameters()
        self.names = list(self._arguments)
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self._function = self._compile(torch)

    def _compile(self, torch: Any) -> Callable[..., Any]:
        engine, model = self._settings.engine, self._subject.model
        if engine != "anabranch" and self._settings.options:
            raise ValueError(f"--option is not for --engine {engine}")
        if engine == "eager":
            return model
        if engine == "inductor":
            return torch.compile(model)
        from ..backend import compile

        options = {"threads": self._settings.threads} | dict(self._settings.options)
        return compile(model, **options)

    def prepare(self) -> None:
        """Prepares the current thread: gradient recording is a setting of the thread."""
        import torch

        torch.set_grad_enabled(False)

    def quiet(self) -> Any:
        import torch

        return torch.no_grad()

    def check(self, gear: spelled.Shapes) -> None:
        """Calls the uncompiled model, so that PyTorch's own words say what it refuses."""
        args, kwargs = self._call_arguments(gear)
        self._subject.model(*args, **kwargs)

    def callers(self, gear: spelled.Shapes) -> tuple[dict[str, str], Sequence[Call]]:
        args, kwargs = self._call_arguments(gear)
        call = functools.partial(self._function, *args, **kwargs)
        shapes = _shapes_of(dict(zip(self.names, args)) | kwargs)
        return shapes, [call] * self._settings.callers

    def _call_arguments(self, gear: spelled.Shapes) -> tuple[list[Any], dict[str, Any]]:
        import torch

        values = dict(self._arguments)
        for name in self._settings.arrays:
            values[name] = torch.from_numpy(_given(name, self._settings, gear))
        for name, shape in gear.items():
            values[name] = _resized(name, values[name], shape)
        count = len(self._subject.positional)
        positional = [values[name] for name in self.names[:count]]
        return positional, {name: values[name] for name in self.names[count:]}


def _resized(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """A tensor like `value` of another shape. Integers stay within those of `value`."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise SubjectError(f"--shape {name}: this input is no tensor")
    if value.is_floating_point() or value.is_complex():
        return torch.randn(shape, dtype=value.dtype)
    low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
    return torch.randint(low, high + 1, shape).to(value.dtype)


def _machine() -> dict[str, Any]:
    return {"cpu": json.loads(_C.machine_limits())["cpu"]}


def _versions() -> dict[str, str]:
    import importlib.metadata

    found = {"anabranch": __version__, "python": platform.python_version()}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["torch"] = importlib.metadata.version("torch")
    return found
