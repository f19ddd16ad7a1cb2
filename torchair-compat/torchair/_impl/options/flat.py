"""npugraph_ex.CompilerConfig: the options of the capture path, without groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import warn_once, wrapped
from .config import CompilerConfig as Tree
from .config import apply_flat, raw
from .kinds import BOOL, Choice, Kind
from .table import EX, ROWS, Row
from .tree import UnknownOption

__all__ = [
    "AnyConfig",
    "CompilerConfig",
    "apply_options",
    "process_kwargs_options",
    "tree_of",
]

_ROWS = {row.flat.removeprefix("-"): row for row in ROWS if row.flat}
_ANEW = "disable_static_kernel_compile_cache"
# Options that the tree does not have: their values and defaults.
_MORE: dict[str, tuple[Kind, Any]] = {
    _ANEW: (BOOL, False),
    "capture_error_mode": (Choice(("global", "thread_local", "relaxed")), "global"),
    "force_recapture": (BOOL, False),
}
_DEADLOCK = "deadlock_check"


class _Option:
    """An option as it was assigned. `.value` has numbers as text."""

    def __init__(self, value: Any, default: Any) -> None:
        self.default = default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        self.value = str(value) if is_number else value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"<option {self.value!r}>"


class CompilerConfig:
    """The options of `torch.compile(options=...)` as attributes, and three more. An
    assignment checks its value."""

    _tree: Tree
    _more: dict[str, Any]

    def __init__(self) -> None:
        tree = Tree()
        tree.mode = EX
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(
            self, "_more", {name: default for name, (_, default) in _MORE.items()}
        )

    @property
    def mode(self) -> _Option:
        return _Option(EX, EX)

    def __getattr__(self, name: str) -> _Option:
        if name.startswith("__") or name in ("_tree", "_more"):
            raise AttributeError(name)
        if name in _MORE:
            return _Option(self._more[name], _MORE[name][1])
        if name == _DEADLOCK:
            return _Option(raw(self._tree, f"debug.{_DEADLOCK}"), False)
        if name not in _ROWS:
            raise _unknown(name)
        row = _ROWS[name]
        return _Option(_seen(row, raw(self._tree, row.path)), _seen(row, row.default))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _MORE:
            try:
                self._more[name] = _MORE[name][0].check(value)
            except ValueError as error:
                raise wrapped(error) from None
            if name == _ANEW:
                object.__setattr__(self._tree, "reuses_static_kernels", not value)
            elif value != _MORE[name][1]:
                warn_once(f"config.{name} has no effect on this host", stacklevel=2)
        elif name == _DEADLOCK:
            self._tree.debug.deadlock_check = value
        elif name in _ROWS:
            apply_flat(self._tree, {name: value})
        else:
            raise _unknown(name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_ROWS, *_MORE, _DEADLOCK]

    def as_dict(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(local options, global options), named as in the graph engine."""
        return self._tree.as_dict()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CompilerConfig)
            and self._tree == other._tree
            and self._more == other._more
        )

    __hash__ = None  # type: ignore[assignment]


def _unknown(name: str) -> Exception:
    return UnknownOption(
        f"Invalid option '{name}'. The 'CompilerConfig' object does not have"
        f" attribute; all options: {sorted([*_ROWS, *_MORE, _DEADLOCK])}"
    )


def _seen(row: Row, value: Any) -> Any:
    """The value in the sense of the tree: a flat name may negate it."""
    return not value if row.flat.startswith("-") else value


AnyConfig = Tree | CompilerConfig


def apply_options(config: AnyConfig, options: Mapping[str, Any]) -> None:
    """Writes the options of `torch.compile(options=...)` into a configuration of either
    kind. ValueError: an option does not exist."""
    rest = dict(options)
    if isinstance(config, CompilerConfig):
        for name in (*_MORE, _DEADLOCK):
            if name in rest:
                setattr(config, name, rest.pop(name))
    apply_flat(tree_of(config), rest)


def process_kwargs_options(config: AnyConfig, kwargs: Mapping[str, Any]) -> None:
    """Writes what a backend got as `options` into its configuration. ValueError: an option
    does not exist."""
    apply_options(config, kwargs.get("options") or {})


def tree_of(config: AnyConfig | None) -> Tree:
    """The tree of options of either kind of configuration. TypeError: the value is
    none."""
    if config is None:
        return Tree()
    if isinstance(config, CompilerConfig):
        return config._tree
    if not isinstance(config, Tree):
        raise TypeError(f"compiler_config must be a CompilerConfig, got {config!r}")
    return config
