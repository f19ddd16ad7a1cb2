"""vLLM's CPU worker. Its weights are in memory once, as programs pack them; after new
weights were loaded, programs pack them again."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException
from vllm.compilation import caching
from vllm.model_executor.layers.attention.attention import Attention
from vllm.v1.outputs import SamplerOutput
from vllm.v1.worker.cpu_worker import CPUWorker

import anabranch
from anabranch import extension

from . import attention, greedy, linear, metrics, regions, saved_key, settings

_log = logging.getLogger("vllm.anabranch")


class AnabranchWorker(CPUWorker):
    """The worker. vLLM loads weights through `data`, whose writes PyTorch does not
    count."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # vLLM collects all garbage several times in a start, and freezes what is left at
        # its end. What the imports made stays: no collection need walk it.
        gc.freeze()
        saved_key.join(caching)
        self.metrics = metrics.Writer()

    def load_model(self, *arguments: Any, **named: Any) -> None:
        if self.model_config.quantization:
            # The import takes time, which other models save.
            from . import rounded_kernels

            rounded_kernels.choose_first()
        super().load_model(*arguments, **named)
        for model in self._models():
            attention.join_all(model, Attention)
        greedy.join(self.model_runner.sampler, SamplerOutput)
        if settings.moves_weights():
            self._move_weights()

    def determine_available_memory(self) -> int:
        # vLLM compiles here, and then measures what is left for the cache.
        marked = [kind for model in self._models() for kind in regions.mark(model)]
        try:
            with extension.collector_at_rest():
                return super().determine_available_memory()
        except TorchDynamoException as error:
            if not marked:
                raise
            reason = str(error).partition("\n")[0]
            _log.info("Anabranch: PyTorch traces each layer by itself: %s", reason)
        finally:
            regions.unmark(marked)
        return self._determine_without_regions()

    def _determine_without_regions(self) -> int:
        with extension.collector_at_rest():
            return super().determine_available_memory()

    def initialize_from_config(self, *arguments: Any, **named: Any) -> None:
        super().initialize_from_config(*arguments, **named)
        # The system may need seconds to make room, in which the start goes on.
        caches = _memories(self.model_runner.kv_caches)
        threading.Thread(
            target=_gather, args=[caches], name="huge pages", daemon=True
        ).start()

    def compile_or_warm_up_model(self) -> Any:
        with extension.collector_at_rest():
            times = super().compile_or_warm_up_model()
        extension.drop_moved_pages()
        self.metrics.update()
        return times

    def execute_model(self, *arguments: Any, **named: Any) -> Any:
        output = super().execute_model(*arguments, **named)
        self.metrics.update()
        return output

    def reload_weights(self, *arguments: Any, **named: Any) -> None:
        super().reload_weights(*arguments, **named)
        self._pack_again()

    def finish_weight_update(self) -> None:
        super().finish_weight_update()
        self._pack_again()

    def _models(self) -> list[torch.nn.Module]:
        """The model, and the one that drafts for it."""
        model, draft = self.get_model(), self.model_runner.get_draft_model()
        return [model] if draft is None else [model, draft]

    def _move_weights(self) -> None:
        """Moves the weights that programs pack out of memory."""
        try:
            moved = extension.move_out_of_memory(
                weight
                for model in self._models()
                for weight in linear.packed_weights(model)
            )
        except OSError as error:
            _log.warning(
                "Anabranch: weights stay in memory beside packed ones: %s", error
            )
            return
        _log.info(
            "Anabranch: %d MiB of weights are in a file, and in memory as programs pack"
            " them",
            moved >> 20,
        )

    def _pack_again(self) -> None:
        for model in self._models():
            anabranch.refresh(model)
        extension.drop_moved_pages()


def _gather(caches: Iterable[torch.UntypedStorage]) -> None:
    """Has caches in huge pages: a step reads some pages of the cache of each request and
    layer, which lie apart."""
    for memory in caches:
        extension.gather_huge_pages(memory.data_ptr(), memory.nbytes())


def _memories(tensors: Iterable[torch.Tensor]) -> list[torch.UntypedStorage]:
    """The memories that some tensors view, each once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list({memory.data_ptr(): memory for memory in storages}.values())
