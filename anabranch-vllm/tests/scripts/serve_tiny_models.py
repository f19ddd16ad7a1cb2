"""Serves tiny models in vLLM, one after another in one process, and writes what each
answers: serve_tiny_models.py FOLDER DTYPE ARGUMENTS NAME...

FOLDER has a folder of weights for each model, or gets one. ARGUMENTS are vLLM's as JSON.
A name is that of a model or of a way to serve one. The answers go to FOLDER/answers.json:
by name, tokens and log-probabilities, an embedding, or the text of an error; and how many
graphs Anabranch compiled in this process, and how many it left to PyTorch."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import tiny_models

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

PROMPTS = [list(range(n, 3 * n)) for n in (1, 9, 30)]


def generated(llm: Any) -> dict[str, Any]:
    """Greedy tokens of a batch and of one request, and the log-probabilities of tokens
    that are forced."""
    from vllm import SamplingParams

    greedy = SamplingParams(
        temperature=0, max_tokens=12, detokenize=False, ignore_eos=True
    )
    forced = SamplingParams(
        temperature=0,
        max_tokens=4,
        allowed_token_ids=[7],
        logprobs=tiny_models.VOCABULARY,
        detokenize=False,
    )
    tokens, rows = [], []
    for prompts in (PROMPTS, PROMPTS[1:2]):
        given = [{"prompt_token_ids": ids} for ids in prompts]
        for answer in llm.generate(given, greedy, use_tqdm=False):
            tokens.append(list(answer.outputs[0].token_ids))
        for answer in llm.generate(given, forced, use_tqdm=False):
            for found in answer.outputs[0].logprobs:
                rows.append(
                    [found[token].logprob for token in range(tiny_models.VOCABULARY)]
                )
    return {"tokens": tokens, "rows": rows}


def embedded(llm: Any) -> dict[str, Any]:
    given = [{"prompt_token_ids": [1 + i for i in ids]} for ids in PROMPTS]
    answers = llm.embed(given, use_tqdm=False)
    return {"rows": [list(answer.outputs.embedding) for answer in answers]}


def with_paths(folder: Path, chosen: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a way to serve, with the folder of a model that drafts."""
    speculative = chosen.get("speculative_config", {})
    if "model" not in speculative:
        return chosen
    draft = {"model": str(folder / speculative["model"])}
    return chosen | {"speculative_config": speculative | draft}


def served(folder: Path, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    import torch
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    import anabranch

    model, chosen = tiny_models.WAYS.get(name, (name, {}))
    if not (folder / model).exists():
        tiny_models.write(model, str(folder / model))
    is_embedding = model in tiny_models.EMBED
    if is_embedding:
        chosen = {"runner": "pooling"}
    else:
        common = {"skip_tokenizer_init": True, "max_logprobs": 512}
        chosen = common | with_paths(folder, chosen)
    if name.endswith("_parallel"):
        # vLLM binds the threads of one rank to one NUMA node.
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    torch._dynamo.reset()
    anabranch.counters.reset()
    llm = None
    try:
        llm = LLM(
            str(folder / model),
            max_model_len=128,
            max_num_seqs=8,
            seed=0,
            **chosen,
            **arguments,
        )
        answers = embedded(llm) if is_embedding else generated(llm)
        counters = anabranch.counters
        return answers | {"graphs": counters.graphs, "eager": counters.eager_graphs}
    except Exception as error:  # noqa: BLE001 - it is this model's answer
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()


def main() -> None:
    folder, dtype, arguments = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    answers = {}
    for name in sys.argv[4:]:
        print("MODEL", name, file=sys.stderr, flush=True)
        answers[name] = served(folder, name, {"dtype": dtype, **arguments})
        (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
