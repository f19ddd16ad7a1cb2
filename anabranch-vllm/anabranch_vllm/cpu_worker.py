"""vLLM's CPU worker. After new weights were loaded, programs pack them."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

import anabranch


class AnabranchWorker(CPUWorker):
    """The worker. vLLM loads weights through `data`, whose writes PyTorch does not
    count."""

    def reload_weights(self, *arguments: Any, **named: Any) -> None:
        super().reload_weights(*arguments, **named)
        anabranch.refresh(self.get_model())

    def finish_weight_update(self) -> None:
        super().finish_weight_update()
        anabranch.refresh(self.get_model())
