"""Runs a model of the recipes for Ascend NPUs on this host, tiny, eager and compiled.

    python examples/11_recipes/run.py FOLDER
    python examples/11_recipes/run.py FOLDER --model qwen3_moe --ranks 2

FOLDER is a checkout of cann-recipes-infer. Nothing is fetched and nothing is written
there: configurations, a tokenizer of bytes and random weights are made in a temporary
folder. The same seed gives both ways the same weights, so the texts must be equal."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODES = ("eager", "npugraph_ex", "ge_graph")
_WIDTHS = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "torch_dtype": "bfloat16",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Of each model: what a tiny one has beside the widths.
MODELS: dict[str, dict[str, Any]] = {
    "qwen3_8b": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 32,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "rope_theta": 10000.0,
    },
    "qwen3_moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
    },
}
_ENTRY = Path("executor", "offline", "infer.py")
_TEXT = re.compile(r"Request (\d+): outputs: (.*)")
_TIME = re.compile(r"decode average inference time cost is ([\d.]+) ms")


def write_model(folder: Path, model: str, layers: int) -> None:
    """Writes config.json and a tokenizer whose tokens are bytes. Without a decoder, each
    token of a text shows as a letter of its own."""
    config = _WIDTHS | MODELS[model] | {"num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    marks = ["<pad>", "<s>", "</s>"]
    letters = [chr(code) for code in (*range(33, 127), *range(161, 512))]
    known = {text: place for place, text in enumerate([*marks, *letters][:512])}
    tokens = [{"id": known[m], "content": m, **_PLAIN} for m in marks]
    tokenizer = {
        "version": "1.0",
        "added_tokens": tokens,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {"type": "BPE", "vocab": known, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_unused(folder: Path) -> None:
    """The recipes import `datasets` also for their own prompts, which need none of it."""
    if importlib.util.find_spec("datasets") is None:
        (folder / "datasets.py").write_text(
            "def load_dataset(*_, **__):\n"
            "    raise ImportError('install datasets to read a data set')\n"
        )


_PLAIN = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def write_run(folder: Path, model: str, mode: str, ranks: int, tokens: int) -> Path:
    """Writes the recipe's own file of settings. JSON is YAML too."""
    settings = {
        "model_config": {
            "model_name": model,
            "model_path": str(folder),
            "exe_mode": mode,
            "with_ckpt": False,
            "output_path": str(folder),
        },
        "data_config": {"dataset": "default", "input_truncated_len": 64},
        "parallel_config": {
            "world_size": ranks,
            "attn_tp_size": ranks,
            "moe_tp_size": ranks,
            "embed_tp_size": ranks,
            "lmhead_tp_size": ranks,
        },
        "scheduler_config": {"max_new_tokens": tokens, "batch_size": 2},
    }
    path = folder / f"{mode}.yaml"
    path.write_text(json.dumps(settings))
    return path


def run(recipes: Path, settings: Path, ranks: int, port: int) -> str:
    """Runs the recipe's offline inference in each rank. Returns what rank 0 said."""
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "RANK_OFFSET": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks)),
        "PYTHONPATH": os.pathsep.join(
            [
                str(recipes),
                str(settings.parent),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        ),
    }
    command = [sys.executable, str(recipes / _ENTRY)]
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "RANK_ID": str(rank)}
        said = settings.with_suffix(f".{rank}.log").open("w")
        processes.append(
            subprocess.Popen(
                [*command, "--yaml_file_path", str(settings)],
                cwd=settings.parent,
                env={**os.environ, **common, **own},
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        )
    codes = [process.wait() for process in processes]
    for rank, code in enumerate(codes):
        if code:
            text = settings.with_suffix(f".{rank}.log").read_text(errors="replace")
            raise SystemExit(f"rank {rank} ended with status {code}:\n{text[-3000:]}")
    return settings.with_suffix(".0.log").read_text(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="a checkout of cann-recipes-infer")
    parser.add_argument("--model", choices=MODELS, default="qwen3_8b")
    parser.add_argument("--mode", choices=MODES[1:], default="npugraph_ex")
    parser.add_argument("--ranks", type=int, choices=(1, 2), default=1)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--port", type=int, default=6038)
    given = parser.parse_args()
    if given.model == "qwen3_moe" and given.ranks == 1:
        parser.error("qwen3_moe has groups of ranks that need --ranks 2")
    recipes = given.folder.resolve()
    if not (recipes / _ENTRY).is_file():
        parser.error(
            f"{given.folder} has no {_ENTRY}: give a checkout of cann-recipes-infer"
        )
    texts: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder, given.model, given.layers)
        write_unused(folder)
        for mode in ("eager", given.mode):
            path = write_run(folder, given.model, mode, given.ranks, given.tokens)
            start = time.perf_counter()
            said = run(recipes, path, given.ranks, given.port)
            whole = time.perf_counter() - start
            texts.append(dict(_TEXT.findall(said)))
            step = _TIME.findall(said)
            print(
                f"{mode}: {whole:.1f} s in all, a step {step[-1] if step else '?'} ms"
            )
            for number, text in texts[-1].items():
                print(f"  {number}: {text!r}")
    same = bool(texts[0]) and texts[0] == texts[1]
    print("The texts are equal." if same else "The texts are not equal.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
