"""Sends a tiny Llama in vLLM many requests: soak.py FOLDER REQUESTS ARGUMENTS

Prompts share beginnings, so the prefix cache has them. Lengths are random, some requests
are aborted, and the server loads its weights anew while others run. ARGUMENTS are vLLM's
as JSON. FOLDER/soak.json gets the tokens of each answer by the number of its prompt, how
many requests were aborted, how often weights were loaded, and the MiB of the process
after each tenth of the requests. 0 requests: the longest answer to each prompt."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import tiny_models

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

LONGEST, AT_ONCE = 24, 16
STARTS = [[7 * n + i for i in range(40)] for n in range(4)]
PROMPTS = [start[: 5 * (n + 1)] + [300 + n] for start in STARTS for n in range(8)]


class Soak:
    """A run. `open` has the prompt of each request that is not finished."""

    def __init__(self, llm: Any, folder: Path) -> None:
        self.llm, self.engine, self.folder = llm, llm.llm_engine, folder
        self.random = random.Random(0)
        self.open: dict[str, int] = {}
        self.answers: list[tuple[int, list[int]]] = []
        self.aborted = self.reloads = 0
        self.memory: list[int] = []

    def run(self, requests: int) -> None:
        for number in range(requests):
            self.send(number, self.random.randrange(len(PROMPTS)))
            if self.random.random() < 0.1:
                self.abort(self.random.choice(list(self.open)))
            if number % max(requests // 10, 1) == 0:
                self.llm.collective_rpc("reload_weights", kwargs=self._weights())
                self.reloads += 1
                self.memory.append(_resident())
            while len(self.open) >= AT_ONCE:
                self.step()
        self.finish()
        self.memory.append(_resident())

    def answer_all(self) -> None:
        """Answers each prompt by itself, as long as any request may ask."""
        for number in range(len(PROMPTS)):
            self.send(number, number, LONGEST)
            self.finish()

    def send(self, number: int, prompt: int, tokens: int = 0) -> None:
        from vllm import SamplingParams

        greedy = SamplingParams(
            temperature=0,
            max_tokens=tokens or self.random.randint(1, LONGEST),
            ignore_eos=True,
            detokenize=False,
        )
        given = {"prompt_token_ids": PROMPTS[prompt]}
        self.engine.add_request(str(number), given, greedy)
        self.open[str(number)] = prompt

    def abort(self, name: str) -> None:
        self.engine.abort_request([name])
        del self.open[name]
        self.aborted += 1

    def step(self) -> None:
        for output in self.engine.step():
            if output.finished and output.request_id in self.open:
                prompt = self.open.pop(output.request_id)
                self.answers.append((prompt, list(output.outputs[0].token_ids)))

    def finish(self) -> None:
        while self.open:
            self.step()

    def _weights(self) -> dict[str, str]:
        return {"weights_path": str(self.folder / "llama")}


def _resident() -> int:
    """MiB of the process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    from vllm import LLM

    folder, requests = Path(sys.argv[1]), int(sys.argv[2])
    if not (folder / "llama").exists():
        tiny_models.write("llama", str(folder / "llama"))
    llm = LLM(
        str(folder / "llama"),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=128,
        max_num_seqs=8,
        enable_prefix_caching=True,
        block_size=32,
        seed=0,
        **json.loads(sys.argv[3]),
    )
    soak = Soak(llm, folder)
    if requests:
        soak.run(requests)
    else:
        soak.answer_all()
    names = ("answers", "aborted", "reloads", "memory")
    found = {name: getattr(soak, name) for name in names}
    (folder / "soak.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
