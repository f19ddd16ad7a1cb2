"""Writes what a run of a recipe reads: a tiny model, and the recipe's settings."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from tiny import IGNORED, MODELS, PARALLEL, QUANTISED, WIDTHS

_MARKS = ["<pad>", "<s>", "</s>"]
_PLAIN = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def write_model(folder: Path, model: str, layers: int, kind: str = "bf16") -> None:
    """Writes config.json and a tokenizer whose tokens are bytes. Without a decoder, each
    token of a text shows as a letter of its own."""
    config = WIDTHS | {"num_hidden_layers": layers} | MODELS[model]
    if kind == "int8":
        ignored = [*QUANTISED["ignore"], *IGNORED.get(model, [])]
        config["quantization_config"] = QUANTISED | {"ignore": ignored}
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    letters = [chr(code) for code in (*range(33, 127), *range(161, 512))]
    known = {text: place for place, text in enumerate([*_MARKS, *letters][:512])}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": known[m], "content": m, **_PLAIN} for m in _MARKS],
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
    """Modules that the recipes import and whose functions these runs do not call: of data
    sets, and of the recipes' own kernels for NPUs."""
    for name, text in {
        "datasets": "def load_dataset(*_, **__):\n"
        "    raise ImportError('install datasets to read a data set')\n",
        "custom_ops": "",
    }.items():
        if importlib.util.find_spec(name) is None:
            (folder / f"{name}.py").write_text(text)


def write_run(
    folder: Path, model: str, mode: str, ranks: int, tokens: int, kind: str = "bf16"
) -> Path:
    """Writes the recipe's own file of settings. JSON is YAML too."""
    sizes = ("attn", "moe", "embed", "lmhead")
    parallel: dict[str, Any] = {f"{name}_tp_size": ranks for name in sizes}
    own = PARALLEL.get(model, {})
    parallel |= {f"{name}_tp_size": ranks if size else 1 for name, size in own.items()}
    settings = {
        "model_config": {
            "model_name": model,
            "model_path": str(folder),
            "exe_mode": mode,
            "with_ckpt": False,
            "output_path": str(folder),
            "next_n": 1 if kind == "drafts" else 0,
        },
        "data_config": {"dataset": "default", "input_truncated_len": 64},
        "parallel_config": {"world_size": ranks, **parallel},
        "scheduler_config": {"max_new_tokens": tokens, "batch_size": 2},
    }
    path = folder / f"{mode}.yaml"
    path.write_text(json.dumps(settings))
    return path
