"""Groups of options, and the options at their leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import warn_once, wrapped
from .kinds import IntList, NewPath
from .table import OPEN_GROUPS, ROWS, Row

__all__ = ["Group", "Option", "UnknownOption"]

_DEFAULTS = {row.path: row.default for row in ROWS}


class UnknownOption(ValueError, AttributeError):
    """There is no such option. Also an AttributeError, so that hasattr() returns False."""


class Option:
    """One option: `.raw` is the assigned value, `.value` its normalised text."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.raw = row.default
        self.assigned = False

    @property
    def default(self) -> Any:
        return self.row.default

    @property
    def optional(self) -> list[Any] | None:
        return self.row.kind.allowed

    @property
    def value(self) -> Any:
        unchanged = isinstance(self.row.kind, IntList) or callable(self.raw)
        if self.raw is None or unchanged or isinstance(self.raw, list | dict):
            return self.raw
        if isinstance(self.raw, bool):
            return "1" if self.raw else "0"
        return str(self.raw)

    @value.setter
    def value(self, value: Any) -> None:
        self.raw = self.row.kind.check(value)
        self.assigned = True

    def __bool__(self) -> bool:
        return bool(self.raw)

    def __fspath__(self) -> str:
        """The path, so that functions of files take an option that is one. TypeError:
        it is none, or unset."""
        if not isinstance(self.row.kind, NewPath) or self.raw is None:
            raise TypeError(f"config.{self.row.path} is no path: {self.raw!r}")
        return str(self.raw)

    def __str__(self) -> str:
        return str(self.raw) if isinstance(self.row.kind, NewPath) else repr(self)

    def __repr__(self) -> str:
        return f"<option {self.row.path}: {self.raw!r}>"


def _warn_of(row: Row, value: Any) -> None:
    if row.status == "none" and value is not None and value is not False:
        warn_once(f"config.{row.path} has no effect on this host", stacklevel=4)
    elif row.status == "missing" and value != row.default:
        warn_once(
            f"config.{row.path} is not supported yet: it changes nothing",
            stacklevel=4,
        )
    elif row.status == "same" and value is not None and value != row.default:
        warn_once(
            f"config.{row.path}={value!r} changes nothing on this host: {row.here}",
            stacklevel=4,
        )
    elif row.promise and value:
        warn_once(f"config.{row.path} is on: {row.promise}", stacklevel=4)


class Group:
    """Options and groups by name. Assigning to a name stores the value in its option."""

    _members: dict[str, Any]
    _path: str

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_members", {})
        object.__setattr__(self, "_path", path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_members":
            raise AttributeError(name)
        if name not in self._members:
            raise UnknownOption(self._no_option(name))
        return self._members[name]

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            self._assign(name, value)
        except Exception as error:  # noqa: BLE001 - raised again in any case
            raise wrapped(error) from None

    def _assign(self, name: str, value: Any) -> None:
        member = self._members.get(name)
        if isinstance(member, Group):
            text = f"{self._path_of(name)} is a group of options"
            raise ValueError(text)  # noqa: TRY004 - as for every wrong option
        if self._path in OPEN_GROUPS:
            if isinstance(member, Option):
                _warn_of(member.row, value)
            self._members[name] = value
        elif member is None:
            raise ValueError(self._no_option(name))
        else:
            member.value = value
            _warn_of(member.row, value)

    def _path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _no_option(self, name: str) -> str:
        return f"{self._title()} has no option {name}, all options {[*self._members]}"

    def _title(self) -> str:
        words = self._path.rsplit(".", 1)[-1].split("_")
        title = "".join(word.capitalize() for word in words)
        return title if title.endswith("config") else f"{title}Config"

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._members]

    def _leaves(self) -> Iterator[tuple[str, Any]]:
        for name, member in self._members.items():
            if isinstance(member, Group):
                yield from member._leaves()
            else:
                yield self._path_of(name), member

    def _raw(self) -> dict[str, Any]:
        """Values by path, also those of options that an assignment to an open group
        replaced."""
        return {
            path: leaf.raw if isinstance(leaf, Option) else leaf
            for path, leaf in self._leaves()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self._raw() == other._raw()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = [f"{p}={v!r}" for p, v in self._raw().items() if v != _DEFAULTS[p]]
        return f"{self._title()}({', '.join(changed)})"
