"""The logger of torchair.core.utils."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TextIO

__all__ = ["EVENT_LEVEL", "logger", "wants_debug"]

EVENT_LEVEL = 35

_LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": EVENT_LEVEL,
}


class _Logger(logging.Logger):
    def __init__(self, name: str, level: int = logging.NOTSET) -> None:
        super().__init__(name, level)
        self._said: set[str] = set()

    def event(self, message: object, *args: object) -> None:
        if self.isEnabledFor(EVENT_LEVEL):
            self._log(EVENT_LEVEL, message, args, stacklevel=2)

    def warning_once(self, message: object, *args: object) -> None:
        if str(message) not in self._said:
            self._said.add(str(message))
            self.warning(message, *args, stacklevel=2)


class _Stdout(logging.StreamHandler):
    """Writes to the object that sys.stdout is when a record comes, not when this module
    was imported."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        executable = os.path.basename(sys.executable)
        seconds = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        where = f"[{record.filename}:{record.lineno}]{threading.get_native_id()}"
        text = (
            f"[{record.levelname}] TORCHAIR({record.process},{executable}):{seconds}"
            f".{micros // 1000:03d}.{micros % 1000:03d} {where} {record.getMessage()}"
        )
        return (
            f"{text}\n{self.formatException(record.exc_info)}"
            if (record.exc_info and record.exc_info[0])
            else text
        )


def wants_debug() -> bool:
    """Whether the environment asks for files about each compilation."""
    return os.environ.get("TORCH_COMPILE_DEBUG") == "1"


def _level() -> int:
    if wants_debug():
        return logging.DEBUG
    return _LEVELS.get(os.environ.get("TNG_LOG_LEVEL", "3"), logging.ERROR)


def _make() -> _Logger:
    logging.addLevelName(EVENT_LEVEL, "EVENT")
    before = logging.getLoggerClass()
    logging.setLoggerClass(_Logger)
    try:
        made = logging.getLogger("torchair")
    finally:
        logging.setLoggerClass(before)
    if not isinstance(made, _Logger):
        raise ImportError(  # noqa: TRY004 - what an import raises
            "another package has taken the logger 'torchair'"
        )
    made.setLevel(_level())
    handler = _Stdout()
    handler.setFormatter(_Formatter())
    made.addHandler(handler)
    return made


logger = _make()
