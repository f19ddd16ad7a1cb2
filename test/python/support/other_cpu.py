"""Compiles for another processor than this one, which has fewer instructions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from anabranch.packages import package


def options_for(cpu: str) -> Callable[..., str]:
    """Takes the place of `package._compiler_options`: the processor is `cpu`, a name of
    the compiler such as "avx2"; "host" is this machine."""
    options = package._compiler_options

    def with_cpu(*arguments) -> str:
        return json.dumps(json.loads(options(*arguments)) | {"cpu": cpu})

    return with_cpu


def compile_for(cpu: str) -> None:
    """Everything that this process compiles from now on is for `cpu`. The cache, which
    has packages for this machine, takes no part."""
    if cpu != "host":
        os.environ["ANABRANCH_CACHE"] = "0"
    package._compiler_options = options_for(cpu)
