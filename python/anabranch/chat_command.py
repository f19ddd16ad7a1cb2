"""`anabranch chat`: a language model answers in the terminal (docs/llm.md)."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import time
from typing import Any

LENGTH = 1024
QUESTION = "What is an anabranch of a river? Answer in one sentence."
OTHERS = ("eager", "inductor")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "chat",
        help="a language model that answers in the terminal",
        description="Answers prompts, greedily. Ctrl-C ends an answer, Ctrl-D the"
        " conversation.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="SmolLM2",
        help="a model's folder, a .gguf file, or SmolLM2, which is the default",
    )
    parser.add_argument("--prompt", help="answer this one and end")
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="the same prompt in eager PyTorch and Inductor, each in its own process",
    )
    parser.add_argument(
        "--engine", choices=("anabranch", *OTHERS), default="anabranch", help="who runs"
    )


def run(given: argparse.Namespace) -> int:
    if given.max_new_tokens < 1:
        raise ValueError(
            f"--max-new-tokens must be positive, got {given.max_new_tokens}"
        )
    if given.threads < 0:
        raise ValueError(f"--threads must not be negative, got {given.threads}")
    if given.compare:
        return _compare(given)
    try:
        _answer(given)
    except ImportError as error:
        raise ValueError(f"`anabranch chat` needs transformers: {error}") from error
    except (MemoryError, NotImplementedError) as error:
        raise ValueError(str(error)) from error
    return 0


def _answer(given: argparse.Namespace) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are files here
    from .llm import chat, checkpoint

    start = time.perf_counter()
    path = checkpoint.find(given.model)
    model, tokenizer = checkpoint.load(path, checkpoint.DTYPES[given.dtype])
    loaded = time.perf_counter()
    limit = model.config.get_text_config(decoder=True).max_position_embeddings
    length = min(LENGTH, limit or LENGTH)
    generate = chat.engine(given.engine, model, length, given.threads)
    talk = chat.Chat(generate, tokenizer, length, given.max_new_tokens)
    with contextlib.redirect_stdout(io.StringIO()):
        chat.Chat(generate, tokenizer, length, 2).answer(given.prompt or QUESTION)
    seconds = time.perf_counter() - loaded
    how = "from the cache" if _was_cached() else "compiled"
    ready = f", {how} in {seconds:.1f} s" if given.engine != "eager" else ""
    print(f"[{path.name}: loaded in {loaded - start:.1f} s{ready}]", file=sys.stderr)
    title = f"{given.engine}, {given.dtype}"
    if given.prompt is None:
        chat.converse(talk, title)
    else:
        print(talk.answer(given.prompt).line(title), file=sys.stderr)


def _was_cached() -> bool:
    from .report import last_report

    return (last_report() or {}).get("cache") == "hit"


def _compare(given: argparse.Namespace) -> int:
    """Each engine in a process of its own, so that its memory is its own."""
    texts: list[str] = []
    for name in ("anabranch", *OTHERS):
        command = [
            *(sys.executable, "-m", "anabranch.cli", "chat", given.model),
            *("--prompt", given.prompt or QUESTION, "--dtype", given.dtype),
            *("--max-new-tokens", str(given.max_new_tokens)),
            *("--threads", str(given.threads), "--engine", name),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"[{name}: does not run here]", file=sys.stderr)
            continue
        if not texts:
            print(done.stdout, end="", flush=True)
        texts.append(done.stdout)
    if not texts:
        return 1
    same = "the same text" if len(set(texts)) == 1 else "texts that differ"
    print(f"[{len(texts)} engines gave {same}]", file=sys.stderr)
    return 0
