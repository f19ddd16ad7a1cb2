"""The user's settings: one frozen dataclass, and the environment's defaults for it."""

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
FREEZE = (False, True, "strict", "move")
WATCH = (False, True, "always")
PANELS = ("best", "alike")
ACTIVATIONS = ("exact", "int8")

# The options that torch.compile(mode=...) sets. Every mode uses the same compiler.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"freeze": True},
    "max-autotune-no-cudagraphs": {"freeze": True},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Every option of a compilation. The manifest of a package records all of them.

    freeze    parameters and buffers become constants of the package: folded and
              packed once. A call that finds them changed packs them again; with
              "strict" it raises FrozenWeightError instead. "move" moves the
              weights into a file without a name before it packs them, so that the
              process never holds them twice; reads and writes of a weight go on.
    watch     whether programs keep what they compute from parameters and buffers that
              are not frozen (packed, folded), until these change; this takes about
              as much memory as the weights. "always": also in graphs with
              collectives and operators of users. A call that finds a weight changed
              runs while no other one does, so such an operator may neither call the
              program nor wait for another call of it. Weights may then take three
              quarters of the available memory instead of one.
    panels    how frozen weights are packed: "best" for the number of rows that the
              graph multiplies; "alike" for any number of rows, so that several
              graphs of one model can share packed weights, as tiers do.
    activations  what products with weights of 4 or 8 bits read of their other
              operand: "exact" all of its precision; "int8" its values rounded to 8
              bits, with a scale for each row and group of at most 256 columns.
    threads   workers of a call, and threads of the compiler, 1024 at most; 0: one
              for each core, and no more than the container's CPU quota allows.
    pin       where the workers of the process run: "cores" gives each a core,
              "0,2-3" these CPUs, "off" any. One choice holds for the process: the
              last one.
    streams   "marked": as the stream scopes of the model say; "auto": in a model
              without scopes the compiler finds branches that are worth overlapping
              on this machine; "off": one list of commands.
    hazards   what happens to an in-place update of a tensor that another stream may
              still read: "error" refuses the graph, "wait" waits for the reader.
    single_stream  one list of commands; a model with stream scopes is refused.
    super_kernels  "marked": as the scopes of the model say; "auto": the compiler
              also makes super kernels of unmarked operators where it expects a
              gain; "off": each kernel is a launch of its own.
    shapes    "auto": as torch.compile decides; "static": one executable for each
              shape; "dynamic": sizes are symbols from the first call on; "tiered":
              as "dynamic", and a thread compiles faster programs for the shapes
              that come often enough to pay.
    eager_first  whether PyTorch runs calls that have no program yet, while a thread
              compiles it. Calls that compute gradients, and those of a rank among
              several, wait for their programs.
    run_sizes  whether `anabranch.compile` takes sizes and numbers that data decide
              (`x[x > 0]`, `nonzero`, `.item()`) into its graphs. False: Dynamo breaks
              the graph there, as torch.compile does unless its own settings are on.
    tier_limit, tier_bytes  how many such programs each graph keeps, and how many
              bytes they may take.
    gears_merge  how gears of several dimensions are combined: "zip" (the first with
              the first, and so on) or "product" (each with each).
    gears_pad runs a size between two gears in the program of the larger one, with
              zeros in the inputs' new elements, where the compiler can show that
              the result is the same.
    tune      True: before it compiles, this machine times ways to cut up the model's
              products, tune_seconds for each graph, and keeps the best in the
              cache; a path: the file that `anabranch tune -o` wrote. Results may
              round differently.
    tune_seconds  how long tuning may take for each graph, in seconds.
    cache     packages that were compiled for this machine before come from disk.
    trust     whose entries of the cache are read: "user" (this user's), "group"
              (also those that a group of this process owns or may write, and links)
              or "anyone"; None: what ANABRANCH_TRUST says, else "user".
    dump      folder for the graph and for the IR after each phase.
    stop      phase after which the compiler stops; PyTorch then runs the graph.
    notices   after the first calls, a line on stderr if more than 5 % of a call's time
              is spent in PyTorch's operators, if graph breaks cut the model, or if
              Dynamo's guards take more than 20 %.
    explain   print why an operator fell back or a graph was not compiled.
    trace     file for a trace of the process, in Chrome's format.
    progress  a line on stderr while compiling.
    debug     verify the IR after every pass and keep intermediate files.

    TypeError, ValueError: a field has a wrong type or value.
    """

    freeze: bool | str = False
    watch: bool | str = True
    panels: str = "best"
    activations: str = "exact"
    threads: int = 0
    pin: str | None = None
    streams: str = "marked"
    hazards: str = "error"
    single_stream: bool = False
    super_kernels: str = "marked"
    shapes: str = "auto"
    eager_first: bool = False
    run_sizes: bool = True
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
    notices: bool = True
    explain: bool = False
    trace: str | None = None
    progress: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        for name in (
            "single_stream",
            "eager_first",
            "run_sizes",
            "gears_pad",
            "cache",
            "notices",
            "explain",
            "progress",
            "debug",
        ):
            _expect(name, getattr(self, name), bool)
        for name in ("freeze", "watch"):
            if not isinstance(getattr(self, name), str):
                _expect(name, getattr(self, name), bool)
        if not isinstance(self.tune, bool):
            object.__setattr__(self, "tune", _path("tune", self.tune))
        expect_seconds("tune_seconds", self.tune_seconds)
        _choose("trust", self.trust, TRUST)
        _choose("freeze", self.freeze, FREEZE)
        _choose("watch", self.watch, WATCH)
        _choose("panels", self.panels, PANELS)
        _choose("activations", self.activations, ACTIVATIONS)
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
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
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
        """The value of torch.compile's argument `dynamic` that the option `shapes`
        needs."""
        return {"auto": None, "static": False}.get(self.shapes, True)


def _expect(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {kind.__name__}, got {value!r}")


def expect_seconds(name: str, value: object) -> None:
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
    """The options that environment variables set.

    Python reads the environment in this module alone. The runtime, which also serves
    programs without Python, itself reads ANABRANCH_TRACE, ANABRANCH_NUM_THREADS,
    OMP_NUM_THREADS, ANABRANCH_SPIN_US and ANABRANCH_PIN. ValueError: a variable has a
    wrong value.
    """
    found: dict[str, Any] = {}
    for option in ("dump", "stop", "trust"):
        if value := os.environ.get(f"ANABRANCH_{option.upper()}"):
            found[option] = value
    for option in ("notices", "explain", "cache"):
        if (value := os.environ.get(f"ANABRANCH_{option.upper()}")) is not None:
            found[option] = value not in ("", "0")
    if (log := os.environ.get("ANABRANCH_LOG", "")) not in ("", "json"):
        raise ValueError(f"ANABRANCH_LOG must be json or not set, got {log!r}")
    if threads := os.environ.get("ANABRANCH_NUM_THREADS"):
        if not threads.isdecimal():
            raise ValueError(f"ANABRANCH_NUM_THREADS must be a number, got {threads!r}")
        found["threads"] = int(threads)
    return found


def logs_json() -> bool:
    """Whether ANABRANCH_LOG=json asks for a line of JSON for each event."""
    return os.environ.get("ANABRANCH_LOG") == "json"


def any_torch() -> bool:
    """Whether ANABRANCH_ANY_TORCH allows a version of torch that was not tested."""
    return os.environ.get("ANABRANCH_ANY_TORCH", "") not in ("", "0")


def resolve(
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    config: Config | None = None,
) -> Config:
    """The configuration of one compilation.

    An option by name wins over `mode`, which wins over `config`. The environment sets
    fields that still have their defaults. TypeError, ValueError: an unknown mode or
    option, or a wrong value.
    """
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
