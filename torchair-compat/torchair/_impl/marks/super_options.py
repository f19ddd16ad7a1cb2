"""Checks the options of super_kernel scopes: those of the compiler, and those of an
NPU, which have no effect on this host."""

from __future__ import annotations

from anabranch.extension import SUPER_KERNEL_OPTIONS, read_super_kernel_option

from ..errors import UnsupportedOption, warn_once

__all__ = ["effective_options", "warn_without_effect", "without_strictness"]

_FLAGS = ("feed-sync-all",)
_LISTS = (
    "dcci-before-kernel-start",
    "dcci-after-kernel-end",
    "dcci-disable-on-kernel",
)
_NUMBERS = ("debug-aic-num", "debug-aiv-num")
_WITHOUT_EFFECT = (*_FLAGS, *_LISTS, *_NUMBERS)
_KNOWN = (*SUPER_KERNEL_OPTIONS, *_WITHOUT_EFFECT)


def effective_options(text: str) -> str:
    """The options with an effect, as anabranch.super_kernel takes them. A wrong option
    is a warning; with strict-scope-check=abort in the text it is UnsupportedOption."""
    found: dict[str, str] = {}
    complaints = []
    for part in filter(None, text.split(":")):
        try:
            name, value = _read(part)
        except ValueError as error:
            complaints.append(str(error))
            continue
        found[name] = value
    for complaint in complaints:
        if found.get("strict-scope-check") == "abort":
            raise UnsupportedOption(
                f"{complaint}; with strict-scope-check=abort that is an error"
            )
        warn_once(f"{complaint}; it is ignored")
    return ":".join(f"{k}={v}" for k, v in found.items() if k in SUPER_KERNEL_OPTIONS)


def without_strictness(options: str) -> str:
    """Effective options less strict-scope-check."""
    parts = filter(None, options.split(":"))
    return ":".join(p for p in parts if not p.startswith("strict-scope-check="))


def warn_without_effect(text: str) -> None:
    """Warns once of each option that has an effect only on an NPU."""
    for part in text.split(":"):
        name = part.partition("=")[0].strip()
        if name in _WITHOUT_EFFECT:
            warn_once(f"super_kernel: the option {name} has no effect on this host")


def _read(part: str) -> tuple[str, str]:
    """Name and value of one option. ValueError: why it is not an option."""
    name, equals, value = (text.strip() for text in part.partition("="))
    if not (equals and name) or name in SUPER_KERNEL_OPTIONS:
        return read_super_kernel_option(part)
    if name not in _KNOWN:
        raise ValueError(
            f"super_kernel: there is no option {name!r}; known: {', '.join(_KNOWN)}"
        )
    if name in _FLAGS and value not in ("0", "1"):
        raise ValueError(f"super_kernel: {name} must be 0 or 1, got {value!r}")
    if name in _NUMBERS and not (
        value.isascii() and value.isdecimal() and int(value[:19]) > 0
    ):
        raise ValueError(f"super_kernel: {name} must be above zero, got {value!r}")
    if name in _LISTS and not all(kind.strip() for kind in value.split(",")):
        raise ValueError(
            f"super_kernel: {name} must be operators with commas between them, got"
            f" {value!r}"
        )
    return name, value
