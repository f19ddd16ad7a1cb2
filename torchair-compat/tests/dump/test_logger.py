"""The logger: levels, format, and variables of the environment."""

import logging
import os
import re
import subprocess
import sys

import pytest

import torchair
from torchair.core.utils import EVENT_LEVEL, logger

SAY = """
from torchair.core.utils import logger
for name in ("debug", "info", "warning", "error", "event"):
    getattr(logger, name)(f"said {name}")
"""
SAID = {
    "0": ["debug", "info", "warning", "error", "event"],
    "1": ["info", "warning", "error", "event"],
    "2": ["warning", "error", "event"],
    "3": ["error"],
    "4": ["error", "event"],
    "nonsense": ["error"],
    None: ["error"],
}


def test_handlers_of_the_program_get_records(caplog) -> None:
    with caplog.at_level(logging.ERROR):
        logger.error("said")
    assert caplog.messages == ["said"]


def test_one_logger() -> None:
    assert torchair.logger is logger
    assert logger.name == "torchair"
    assert EVENT_LEVEL == 35


@pytest.mark.checklist("T018")
@pytest.mark.parametrize("level", SAID, ids=str)
def test_level_from_the_environment(level) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TNG_LOG_LEVEL"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    if level is not None:
        environment["TNG_LOG_LEVEL"] = level
    output = subprocess.run(
        [sys.executable, "-c", SAY],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.findall(r"said (\w+)", output) == SAID[level]


@pytest.mark.checklist("T018")
def test_format(debug, capsys) -> None:
    logger.event("one %d", 2)
    line = capsys.readouterr().out
    assert re.fullmatch(
        r"\[EVENT\] TORCHAIR\(\d+,[\w.]+\):\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\.\d{3}"
        r" \[test_logger\.py:\d+\]\d+ one 2\n",
        line,
    )


def test_once(debug, capsys) -> None:
    for _ in range(3):
        logger.warning_once("just once")
    assert capsys.readouterr().out.count("just once") == 1


def test_quiet_by_default(capsys) -> None:
    logger.setLevel(logging.ERROR)
    logger.warning("nothing")
    assert not capsys.readouterr().out
