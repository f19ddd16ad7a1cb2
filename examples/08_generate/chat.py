"""Exports SmolLM2 with its real weights, and asks the C++ program beside this file.

    cmake -S examples/08_generate -B /tmp/generate -DCMAKE_PREFIX_PATH=<installed>
    cmake --build /tmp/generate
    .venv/bin/python examples/08_generate/chat.py /tmp/generate/generate "Hello"

Python exports the package once and translates text to tokens; the program generates.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from anabranch import llm

PACKAGE = Path("smollm2.anb")


def main(program: str, prompt: str) -> None:
    model, tokenizer = llm.load("SmolLM2")
    if not PACKAGE.exists():
        llm.export(model, PACKAGE, max_length=1024)
    tokens = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        return_dict=True,
    )["input_ids"]
    end = str(tokenizer.eos_token_id)
    command = [program, str(PACKAGE), "--new", "100", "--end", end]
    with subprocess.Popen(
        [*command, *map(str, tokens)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text = tokenizer.decode([int(line)], skip_special_tokens=True)
            print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
