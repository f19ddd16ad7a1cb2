"""vLLM's CPU platform, with Anabranch as the compiler of models."""

from __future__ import annotations

from typing import Any

from vllm.platforms.cpu import CpuPlatform

from . import settings


class AnabranchPlatform(CpuPlatform):
    """The CPU platform. The settings of the compilation and the worker differ."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        compilation = vllm_config.compilation_config
        chosen = settings.chooses_anabranch(compilation)
        is_open = vllm_config.parallel_config.worker_cls == "auto"
        super().check_and_update_config(vllm_config)
        # The CPU platform compiles no model with LoRA.
        if chosen and compilation.mode != settings.Mode.NONE:
            settings.apply(compilation)
            if is_open:
                vllm_config.parallel_config.worker_cls = settings.WORKER
        elif getattr(vllm_config.model_config, "use_mla", False):
            settings.rotate_in_pytorch(compilation)
