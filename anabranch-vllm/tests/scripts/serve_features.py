"""Serves tiny models in vLLM with a feature: serve_features.py FOLDER FEATURE ARGUMENTS.

ARGUMENTS are vLLM's as JSON. FOLDER/answer.json gets the tokens or scores, and how many
graphs Anabranch compiled in this process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tiny_models

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

PROMPTS = [list(range(n, 3 * n)) for n in (1, 9, 30)]
RANK = 8


def engine(folder: Path, **arguments: Any) -> Any:
    from vllm import LLM

    common: dict[str, Any] = {"dtype": "float32", "max_model_len": 128, "seed": 0}
    return LLM(str(folder), max_num_seqs=8, **common | arguments)


def llama(folder: Path, **arguments: Any) -> Any:
    if not (folder / "llama").exists():
        tiny_models.write("llama", str(folder / "llama"))
    return engine(folder / "llama", skip_tokenizer_init=True, **arguments)


def tokens(llm: Any, asked: Any = None, **named: Any) -> list[list[int]]:
    """Greedy tokens. `asked` are more parameters of the requests."""
    from vllm import SamplingParams

    greedy = SamplingParams(
        temperature=0, max_tokens=12, detokenize=False, ignore_eos=True, **asked or {}
    )
    given = [{"prompt_token_ids": ids} for ids in PROMPTS]
    found = llm.generate(given, greedy, use_tqdm=False, **named)
    return [list(answer.outputs[0].token_ids) for answer in found]


def write_adapter(folder: Path) -> None:
    """Random matrices beside the projections of queries and values."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    weights = {}
    for layer in range(2):
        for name, rows in (("q_proj", 64), ("v_proj", 32)):
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{place}.lora_A.weight"] = torch.randn(RANK, 64) * 0.3
            weights[f"{place}.lora_B.weight"] = torch.randn(rows, RANK) * 0.3
    folder.mkdir(exist_ok=True)
    save_file(weights, str(folder / "adapter_model.safetensors"))
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def lora(folder: Path, **arguments: Any) -> list[Any]:
    """Tokens without an adapter and with one."""
    from vllm.lora.request import LoRARequest

    write_adapter(folder / "adapter")
    llm = llama(folder, enable_lora=True, max_lora_rank=RANK, **arguments)
    adapter = LoRARequest("adapter", 1, str(folder / "adapter"))
    return [tokens(llm), tokens(llm, lora_request=adapter)]


def sleep(folder: Path, **arguments: Any) -> list[Any]:
    """Tokens before the engine sleeps and after it woke."""
    llm = llama(folder, **arguments)
    before = tokens(llm)
    llm.sleep(level=1)
    llm.wake_up()
    return [before, tokens(llm)]


def greedy(folder: Path, **arguments: Any) -> list[Any]:
    """Tokens of logits of 16 bits: of plain requests, of requests that ask for logprobs,
    or change logits, and of plain ones again."""
    llm = llama(folder, dtype="bfloat16", **arguments)
    plain = tokens(llm)
    with_logprobs = tokens(llm, {"logprobs": 0})
    penalised = tokens(llm, {"presence_penalty": 1.5})
    biased = tokens(llm, {"logit_bias": {7: 100.0}})
    return [plain, with_logprobs, penalised, biased, tokens(llm)]


def rerank(folder: Path, **arguments: Any) -> list[Any]:
    """The scores of texts for a query."""
    import torch
    import transformers

    place = folder / "reranker"
    fields = tiny_models.ENCODER | {"num_labels": 1}
    torch.manual_seed(0)
    config = transformers.BertConfig(**fields)
    model = transformers.BertForSequenceClassification(config)
    model.float().save_pretrained(str(place))
    tiny_models.tokenizer().save_pretrained(str(place))
    llm = engine(place, runner="pooling", **arguments)
    texts = ["w7 w8 w9", "w400", " ".join(f"w{i}" for i in range(20, 70))]
    found = llm.score("w5 w6 w7", texts, use_tqdm=False)
    return [answer.outputs.score for answer in found]


def main() -> None:
    import anabranch

    folder, feature = Path(sys.argv[1]), sys.argv[2]
    features = {"lora": lora, "sleep": sleep, "greedy": greedy, "rerank": rerank}
    serve = features[feature]
    answer = serve(folder, **json.loads(sys.argv[3]))
    counters = anabranch.counters
    graphs = {"graphs": counters.graphs, "eager": counters.eager_graphs}
    (folder / "answer.json").write_text(json.dumps({"answer": answer} | graphs))


if __name__ == "__main__":
    main()
