"""The kinds of options: each checks a value when it is assigned."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any


@dataclasses.dataclass(frozen=True)
class Kind:
    """Accepts any value. `check` returns the value to store, or raises."""

    @property
    def allowed(self) -> list[Any] | None:
        return None

    def check(self, value: Any) -> Any:
        return value

    def describe(self) -> str:
        return "anything"


@dataclasses.dataclass(frozen=True)
class Choice(Kind):
    values: tuple[Any, ...]

    @property
    def allowed(self) -> list[Any]:
        return list(self.values)

    def check(self, value: Any) -> Any:
        if value not in self.allowed:
            raise ValueError(
                f"Value {value!r} (type: {type(value)}) not in optional list"
                f" {self.allowed} (type: {type(self.values[0])})."
            )
        return value

    def describe(self) -> str:
        return ", ".join(f"`{value!r}`" for value in self.values)


@dataclasses.dataclass(frozen=True)
class IntRange(Kind):
    low: int
    high: int = 2**63 - 1

    def check(self, value: Any) -> Any:
        if not isinstance(value, int):
            text = f"Please set integer type, but got {type(value)}"
            raise ValueError(text)  # noqa: TRY004 - as torchair does
        if not self.low <= value <= self.high:
            raise ValueError(
                f"Please set value in [{self.low}, {self.high}],"
                f" {value} is out of range."
            )
        return value

    def describe(self) -> str:
        return f"int from {self.low}"


@dataclasses.dataclass(frozen=True)
class IntList(Kind):
    def check(self, value: Any) -> Any:
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise TypeError("the set value must be None or list")
        if not all(isinstance(item, int) for item in value):
            raise TypeError("the set value must be int list")
        return value

    def describe(self) -> str:
        return "list of int"


@dataclasses.dataclass(frozen=True)
class Instance(Kind):
    """`None`, or a value of the named type."""

    name: str

    def check(self, value: Any) -> Any:
        accepts = {
            "str": isinstance(value, str),
            "dict": isinstance(value, dict),
            "Callable": callable(value),
        }
        if value is not None and not accepts[self.name]:
            raise TypeError(f"value must be {self.name} or None")
        return value

    def describe(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class File(Kind):
    """An existing file, or `None`. With `parse` the file must hold JSON."""

    parse: bool = False

    def check(self, value: Any) -> Any:
        if value is None:
            return None
        if not os.path.isfile(value):
            raise FileNotFoundError(
                f"Please set legal file path, {value} is not found or is not a file!"
            )
        if self.parse:
            try:
                with open(value, encoding="utf-8") as stream:
                    json.load(stream)
            except ValueError as error:
                raise ValueError(f"{value} is not valid json: {error}") from error
        return value

    def describe(self) -> str:
        return "path of a file" + (" that holds JSON" if self.parse else "")


@dataclasses.dataclass(frozen=True)
class JsonFile(Kind):
    def check(self, value: Any) -> Any:
        if value is None:
            return None
        if value == "":
            raise ValueError("File path cannot be empty!")
        if not os.path.isfile(value) or not str(value).endswith(".json"):
            raise FileNotFoundError(
                f"Please set legal file path, {value} is not found or is not"
                " '.json' file!"
            )
        return value

    def describe(self) -> str:
        return "path of a `.json` file"


@dataclasses.dataclass(frozen=True)
class Directory(Kind):
    def check(self, value: Any) -> Any:
        if value is None or not os.path.isdir(value):
            raise FileNotFoundError(
                f"Please set legal dir path, {value} is not found or is not"
                " a file directory!"
            )
        return value

    def describe(self) -> str:
        return "path of a folder"


@dataclasses.dataclass(frozen=True)
class NewPath(Kind):
    """A path, stored in its real form. It may not exist yet."""

    def check(self, value: Any) -> Any:
        return None if value is None else os.path.realpath(value)

    def describe(self) -> str:
        return "path"


@dataclasses.dataclass(frozen=True)
class Steps(Kind):
    """`0|1|2-5|6`: numbers and spans, separated by bars.

    A single pass reads them: the regular expression that the message names takes
    exponential time.
    """

    PATTERN = r"^(((\d+)|(\d+-{0,1}\d+))\|{0,1})*$"

    def check(self, value: Any) -> Any:
        if not isinstance(value, str) or not self._matches(value):
            raise ValueError(_illegal(self.PATTERN, value, "0|1|2-5|6"))
        return value

    @staticmethod
    def _matches(text: str) -> bool:
        # A bar may end the list. Spans may follow each other without a bar: `1-23-4` is
        # `1-2` and `3-4`, so digits between two dashes belong to both spans.
        for item in text.removesuffix("|").split("|") if text else []:
            first, *inner = item.split("-")
            last = inner.pop() if inner else first
            if not all(part.isdecimal() for part in (first, *inner, last)):
                return False
            if any(len(part) < 2 for part in inner):
                return False
        return True

    def describe(self) -> str:
        return "steps, as in `0/1/2-5` with bars for slashes"


@dataclasses.dataclass(frozen=True)
class Layers(Kind):
    PATTERN = r'^[0-9a-zA-Z_" "/\\.]*$'

    def check(self, value: Any) -> Any:
        legal = isinstance(value, str) and all(
            letter.isascii() and (letter.isalnum() or letter in '_" /\\.')
            for letter in value
        )
        if not legal:
            raise ValueError(_illegal(self.PATTERN, value, "Mul_1 Add1 Conv2D_1"))
        return value

    def describe(self) -> str:
        return "names, with blanks between"


def _illegal(pattern: str, value: Any, example: str) -> str:
    return (
        f"Please set legal regex value format match {pattern}, {value} is"
        f" Illegal format, correct example:{example}."
    )


ANY = Kind()
BOOL = Choice((True, False))
STR = Instance("str")
DICT = Instance("dict")
CALLABLE = Instance("Callable")
