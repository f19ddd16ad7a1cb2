"""vLLM's CPU platform, with Anabranch as the compiler of models."""

from __future__ import annotations

from typing import Any

from vllm.platforms.cpu import CpuPlatform

from . import settings


class AnabranchPlatform(CpuPlatform):
    """The CPU platform. Only the settings of the compilation differ."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        compilation = vllm_config.compilation_config
        chosen = settings.chooses_anabranch(compilation)
        super().check_and_update_config(vllm_config)
        # The CPU platform compiles no model with LoRA.
        if chosen and compilation.mode != settings.Mode.NONE:
            settings.apply(compilation)
