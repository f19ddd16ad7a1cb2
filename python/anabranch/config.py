"""What a user can set, in one frozen dataclass."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Mapping
from typing import Any

PHASES = ("import", "lower", "fuse", "schedule", "memory", "codegen", "package")
STREAMS = ("marked", "auto", "off")
HAZARDS = ("error", "wait")
SUPER_KERNELS = ("marked", "auto", "off")
MOST_THREADS = 1024
SHAPES = ("auto", "static", "dynamic", "tiered")
GEARS_MERGE = ("zip", "product")
TRUST = (None, "user", "group", "anyone")
FREEZE = (False, True, "strict")
PANELS = ("best", "alike")

# What torch.compile(mode=...) means here. Every mode gives the same kernels:
# there is one way to compile, and it is the fast one.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"freeze": True},
    "max-autotune-no-cudagraphs": {"freeze": True},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Every option, passed explicitly and written whole into the manifest.

    freeze    parameters and buffers become constants of the package: folded and
              packed once. A call that finds them changed packs them again; with
              "strict" it raises FrozenWeightError instead.
    panels    how frozen weights are packed: "best" for the rows that a graph
              multiplies, or "alike" for all numbers of rows, so that graphs of one
              model share packed weights.
    threads   workers of a call, and threads that compile, 1024 at most; 0: one
              for each core, and no more than the container's CPU quota allows.
    pin       where the workers of the process run: "cores" gives each a core,
              "0,2-3" these CPUs, "off" any; the last choice of the process counts.
    streams   "marked": as the scopes of the model say; "auto": where there are
              none, the compiler finds branches that are worth overlapping, by
              what this machine was measured to do; "off": one list of commands.
    hazards   an in-place update of a tensor that another stream may still read
              is refused ("error") or waits for the reader ("wait").
    single_stream  one list of commands; a model with stream scopes is refused.
    super_kernels  "marked": as the scopes of the model say; "auto": besides, of
              what no scope marks the compiler makes super kernels where it sees
              a gain; "off": each kernel is a launch.
    shapes    "auto": as torch.compile decides; "static": one executable for
              each shape; "dynamic": sizes are symbols from the first call on;
              "tiered": besides, a thread compiles programs for the shapes that
              come, which later calls run.
    tier_limit, tier_bytes  of each graph: how many such programs are kept, and
              how much memory they may hold.
    gears_merge  how the gears of several dimensions are combined: the first with
              the first and so on ("zip"), or each with each ("product").
    gears_pad a size between gears runs in the next larger one, filled with zeros,
              where the compiler can show that the result is the same.
    tune      True: this machine times ways to cut up the model's products before it
              compiles them, tune_seconds for each graph, and keeps the best in the
              cache; a path: the file that `anabranch tune -o` wrote. Results may
              round differently.
    cache     what was compiled for this machine before comes from disk.
    trust     whose entries of the cache are read: "user" (this user's), "group"
              (also what a group of this process owns or may write, and links) or
              "anyone"; None: what ANABRANCH_TRUST says, else "user".
    dump      folder for the graph and for the IR after each phase.
    stop      phase after which the compiler stops; the graph then runs eagerly.
    explain   print why an operator fell back or a graph was not compiled.
    trace     file for a trace of the run, in Chrome's format.
    progress  a line on stderr while compiling.
    debug     verify after every pass and keep intermediate files.
    """

    freeze: bool | str = False
    panels: str = "best"
    threads: int = 0
    pin: str | None = None
    streams: str = "marked"
    hazards: str = "error"
    single_stream: bool = False
    super_kernels: str = "marked"
    shapes: str = "auto"
    tier_limit: int = 16
    tier_bytes: int = 1 << 30
    gears_merge: str = "zip"
    gears_pad: bool = False
    tune: bool | str = False
    tune_seconds: float = 30.0
    cache: bool = True
    trust: str | None = None
    dump: str | None = None
    stop: str | None = None
    explain: bool = False
    trace: str | None = None
    progress: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        for name in (
            "single_stream",
            "gears_pad",
            "cache",
            "explain",
            "progress",
            "debug",
        ):
            _expect(name, getattr(self, name), bool)
        if not isinstance(self.freeze, str):
            _expect("freeze", self.freeze, bool)
        if not isinstance(self.tune, bool):
            object.__setattr__(self, "tune", _path("tune", self.tune))
        _expect_seconds("tune_seconds", self.tune_seconds)
        _choose("trust", self.trust, TRUST)
        _choose("freeze", self.freeze, FREEZE)
        _choose("panels", self.panels, PANELS)
        for name in ("dump", "trace"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _path(name, getattr(self, name)))
        if self.pin is not None:
            _expect("pin", self.pin, str)
        _expect("threads", self.threads, int)
        if not 0 <= self.threads <= MOST_THREADS:
            raise ValueError(
                f"threads must be from 0 to {MOST_THREADS}, got {self.threads}"
            )
        for name in ("tier_limit", "tier_bytes"):
            _expect(name, getattr(self, name), int)
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive")
        _choose("streams", self.streams, STREAMS)
        _choose("hazards", self.hazards, HAZARDS)
        _choose("super_kernels", self.super_kernels, SUPER_KERNELS)
        _choose("shapes", self.shapes, SHAPES)
        _choose("gears_merge", self.gears_merge, GEARS_MERGE)
        if self.stop is not None:
            _choose("stop", self.stop, PHASES)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def dynamic(self) -> bool | None:
        """The `dynamic` argument of torch.compile that `shapes` stands for."""
        return {"auto": None, "static": False}.get(self.shapes, True)


def _expect(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {kind.__name__}, got {value!r}")


def _expect_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive, got {value!r}")


def _path(name: str, value: Any) -> str:
    path = os.fsdecode(os.fspath(value))
    if not path or "\0" in path:
        raise ValueError(f"{name} must be a path, got {value!r}")
    return path


def _choose(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        known = ", ".join(map(str, choices))
        raise ValueError(f"{name} must be one of {known}; got {value!r}")


def known_options() -> list[str]:
    return [field.name for field in dataclasses.fields(Config)]


def environment() -> dict[str, Any]:
    """The switches that come from the environment: this module is the only place
    where Python reads it. The runtime itself reads ANABRANCH_TRACE, ANABRANCH_NUM_THREADS,
    OMP_NUM_THREADS, ANABRANCH_SPIN_US and ANABRANCH_PIN, for programs without Python too."""
    found: dict[str, Any] = {}
    for option in ("dump", "stop", "trust"):
        if value := os.environ.get(f"ANABRANCH_{option.upper()}"):
            found[option] = value
    for option in ("explain", "cache"):
        if (value := os.environ.get(f"ANABRANCH_{option.upper()}")) is not None:
            found[option] = value not in ("", "0")
    if (log := os.environ.get("ANABRANCH_LOG", "")) not in ("", "json"):
        raise ValueError(f"ANABRANCH_LOG must be json or not set: {log!r}")
    if threads := os.environ.get("ANABRANCH_NUM_THREADS"):
        if not threads.isdecimal():
            raise ValueError(f"ANABRANCH_NUM_THREADS must be a number: {threads!r}")
        found["threads"] = int(threads)
    return found


def logs_json() -> bool:
    """Whether ANABRANCH_LOG asks for a line of JSON for each event."""
    return os.environ.get("ANABRANCH_LOG") == "json"


def any_torch() -> bool:
    """Whether a version of torch that is not supported may be tried."""
    return os.environ.get("ANABRANCH_ANY_TORCH", "") not in ("", "0")


def resolve(
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    config: Config | None = None,
) -> Config:
    """The configuration of one torch.compile call. The environment fills what
    nobody set; explicit options win over the mode."""
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    values = environment()
    if config is not None:
        default = Config()
        values |= {
            name: getattr(config, name)
            for name in known_options()
            if getattr(config, name) != getattr(default, name)
        }
    values |= MODES[mode or "default"]
    for name in options or {}:
        if name not in known_options():
            close = difflib.get_close_matches(str(name), known_options(), 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(
                f"unknown option {name!r}{hint}; known: {', '.join(known_options())}"
            )
    values |= options or {}
    return Config(**values)
