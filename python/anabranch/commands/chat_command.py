"""`anabranch chat`: a language model answers in the terminal (docs/llm.md)."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from typing import Any

QUESTION = "What is an anabranch of a river? Answer in one sentence."
OTHERS = ("eager", "inductor", "llama.cpp", "openvino")
# The module that an engine needs, and the package that has it.
NEEDED = {
    "llama.cpp": ("llama_cpp", "llama-cpp-python"),
    "openvino": ("openvino_genai", "openvino-genai"),
}


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
    parser.add_argument(
        "--quantize",
        choices=("int8", "int4"),
        help="round the weights to so many bits; else a .gguf file's stay as they are",
    )
    parser.add_argument(
        "--activations",
        choices=("exact", "int8"),
        default="exact",
        help="what products with weights of 4 or 8 bits read of their other operand",
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="the same prompt in eager PyTorch, Inductor, llama.cpp and OpenVINO GenAI,"
        " each in its own process",
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
    if given.engine != "anabranch" and (few := _of_anabranch(given)):
        raise ValueError(f"{few[0]} is for anabranch, and --engine {given.engine} runs")
    if given.compare:
        return _compare(given)
    try:
        _answer(given)
    except ImportError as error:
        raise ValueError(f"`anabranch chat` needs transformers: {error}") from error
    except (MemoryError, NotImplementedError) as error:
        raise ValueError(str(error)) from error
    return 0


def _of_anabranch(given: argparse.Namespace) -> list[str]:
    """The arguments of the command that other engines do not have."""
    quantize = ["--quantize", given.quantize] if given.quantize else []
    rounds = given.activations != "exact"
    return quantize + (["--activations", given.activations] if rounds else [])


def _answer(given: argparse.Namespace) -> None:
    # Models are files of this machine: nothing is downloaded.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from ..llm import chat, engines, model_files
    from ..llm.chatting.chat_engine import Precision

    start = time.perf_counter()
    path = model_files.find(given.model)
    precision = Precision(given.dtype, given.quantize, given.activations)
    engine = engines.make(given.engine, path, precision, given.threads)
    talk = chat.Chat(engine, given.max_new_tokens)
    # Engines that compile or allocate at a first call do it now.
    tokens = engine.tokenizer.tokens([{"role": "user", "content": QUESTION}])
    engine.answer(tokens, 2, lambda _: True)
    ready = time.perf_counter() - start
    print(f"[{path.name}: {engine.made} in {ready:.1f} s]", file=sys.stderr)
    how = "its own types" if given.engine == "llama.cpp" else given.dtype
    title = f"{given.engine}, {given.quantize or how}"
    if given.prompt is None:
        chat.converse(talk, title)
    else:
        print(talk.answer(given.prompt).line(title), file=sys.stderr)


def _compare(given: argparse.Namespace) -> int:
    """Runs each engine in a process of its own, so that its peak memory is its own."""
    answers: dict[str, str] = {}
    for name in ("anabranch", *OTHERS):
        module, package = NEEDED.get(name, ("torch", "torch"))
        if importlib.util.find_spec(module) is None:
            print(f"[{name}: missing, `pip install {package}`]", file=sys.stderr)
            continue
        few = _of_anabranch(given) if name == "anabranch" else []
        command = [
            *(sys.executable, "-m", "anabranch.cli", "chat", given.model),
            *("--prompt", given.prompt or QUESTION, "--dtype", given.dtype),
            *("--max-new-tokens", str(given.max_new_tokens)),
            *("--threads", str(given.threads), "--engine", name, *few),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"[{name}: does not run here]", file=sys.stderr)
            continue
        if not answers:
            print(done.stdout, end="", flush=True)
        answers[name] = done.stdout
    if not answers:
        return 1
    print(f"[{_agreement(answers)}]", file=sys.stderr)
    return 0


def _agreement(answers: dict[str, str]) -> str:
    """Says which engines gave the same text as the first one."""
    text = next(iter(answers.values()))
    same = [name for name in answers if answers[name] == text]
    others = [name for name in answers if answers[name] != text]
    line = f"the same text: {', '.join(same)}"
    return line + (f"; another one: {', '.join(others)}" if others else "")
