"""The programs that equal_bits.py compares, each in a process of its own.

token_engines.py NAME FILE --threads N reads commands, a line of JSON each, and answers with
lines of JSON. NAME is one of `ENGINES`.

{"prompt": 512}            prompts of 512 new tokens: the first token of the answer
{"rows": 4, "depth": 256}  four answers at once, behind 256 tokens of each

"turns" says how many times "go" follows. The answer to each is the seconds of a prompt, or
of one step as the mean of `TOKENS`: by the clock on the wall, and of CPU time. A turn begins
with unmeasured work, so that it does not find the caches of another program.

All programs read the same GGUF file and the same tokens. No program chooses the next
token but by greedy search: Anabranch in its public loops, OpenVINO in its pipeline;
llama.cpp gets a given token, as in its own benchmark.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

TOKENS = 16
WARM = 128  # tokens of an unmeasured prompt, at most
WORDS = (1000, 20000)  # prompts have tokens from this range
LENGTH = 4096  # of Anabranch's cache of one answer, at least
MARK = "TOKENS "


class Absent(Exception):
    """The program is not installed."""


class Turns:
    """Answers "go" with the time of what comes after it."""

    def __init__(self, answers: TextIO, turns: int) -> None:
        self._answers, self._turns, self._ticks = answers, turns, 0

    @property
    def steps(self) -> int:
        """How many steps all turns take."""
        return 2 * TOKENS * self._turns

    def tell(self, **row: Any) -> None:
        self._answers.write(MARK + json.dumps(row) + "\n")
        self._answers.flush()

    def of(self, warm: Callable[[], object], work: Callable[[], object]) -> None:
        """Times a call of `work` in each turn."""
        for _ in range(self._turns):
            self._wait()
            warm()
            self._begin()
            work()
            self._end(1)

    def tick(self) -> None:
        """A step ended, or the first one may begin. Half of a turn's steps are timed."""
        part = self._ticks % (2 * TOKENS)
        if part == 0 and self._ticks:
            self._end(TOKENS)
        if part == 0 and self._ticks < self.steps:
            self._wait()
        if part == TOKENS:
            self._begin()
        self._ticks += 1

    def _wait(self) -> None:
        self.tell(ready=True)
        if sys.stdin.readline() != "go\n":
            sys.exit("the caller ended")

    def _begin(self) -> None:
        self._since = time.perf_counter(), time.process_time()

    def _end(self, count: int) -> None:
        wall, cpu = self._since
        self.tell(
            wall=(time.perf_counter() - wall) / count,
            cpu=(time.process_time() - cpu) / count,
        )


def prompts(tokens: int, rows: int = 1) -> Iterator[np.ndarray]:
    """New tokens at each call, so that no program knows a beginning: [rows, tokens]."""
    chance = np.random.default_rng(tokens)
    while True:
        yield chance.integers(*WORDS, (rows, tokens))


class Anabranch:
    """`exact` multiplies floats by the weights, else bytes. `narrow`: other numbers are
    bf16 where the file says nothing of them."""

    def __init__(
        self, file: str, threads: int, exact: bool = True, narrow: bool = False
    ) -> None:
        import torch

        torch.set_num_threads(threads)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from anabranch import llm

        types = types_of(file)
        narrow = narrow or types == {"BF16"}
        floats = torch.bfloat16 if narrow else torch.float32
        packed = not types <= {"F32", "BF16", "F16"}
        self._model, _ = llm.load(file, dtype=floats, packed=packed)
        self._model.generation_config.eos_token_id = None
        self._activations = "exact" if exact else "int8"
        self._compiled: Any = None

    def _of(self, rows: int, length: int) -> Any:
        from anabranch import llm

        length = max(length, LENGTH) if rows == 1 else length
        made = self._compiled
        if made is None or made.max_batch != rows or made.max_length < length:
            self._compiled = None  # before the next one packs the weights
            self._compiled = llm.compile(
                self._model,
                max_batch=rows,
                max_length=length,
                activations=self._activations,
            )
        return self._compiled

    def read(self, tokens: int, turns: Turns) -> None:
        compiled = self._of(1, tokens + 1)
        small, whole = prompts(min(tokens, WARM)), prompts(tokens)

        def first(prompt: np.ndarray) -> None:
            self._generate(compiled, prompt, 1)

        first(next(whole))  # compiles
        turns.of(lambda: first(next(small)), lambda: first(next(whole)))

    def decode(self, rows: int, depth: int, turns: Turns) -> None:
        import torch

        if rows == 1:
            compiled = self._of(1, depth + turns.steps + 1)
            self._generate(compiled, next(prompts(depth)), turns.steps + 1, turns)
            return
        # A request is ahead of a later one by a step for each chunk that the later reads.
        ahead = rows * (2 + depth // 512)
        new = turns.steps + ahead
        compiled = self._of(rows, depth + new)
        batch = compiled.batch(cache_tokens=rows * (depth + new))
        for prompt in next(prompts(depth, rows)):
            batch.add(torch.from_numpy(prompt), do_sample=False, max_new_tokens=new)
        while batch.waiting or any(len(r.answer) == 0 for r in batch.running):
            batch.step()
        for _ in range(turns.steps):
            turns.tick()
            batch.step()
        turns.tick()

    def _generate(
        self, compiled: Any, prompt: np.ndarray, new: int, turns: Turns | None = None
    ) -> None:
        import torch

        class Ticks:
            """Ticks at each token of the answer."""

            is_prompt = True

            def put(self, _: Any) -> None:
                if turns is not None and not self.is_prompt:
                    turns.tick()
                self.is_prompt = False

            def end(self) -> None:
                pass

        tokens = torch.from_numpy(prompt)
        compiled.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=new,
            streamer=Ticks(),
        )


class LlamaCpp:
    """The library of llama-cpp-python, with its default settings."""

    def __init__(self, file: str, threads: int) -> None:
        try:
            from llama_cpp import llama_cpp as library
        except ImportError as problem:
            raise Absent(f"not installed: {problem.name or 'llama_cpp'}") from problem
        self._library, self._threads = library, threads
        self._silent = library.llama_log_callback(lambda *_: None)
        library.llama_log_set(self._silent, None)
        library.llama_backend_init()
        settings = library.llama_model_default_params()
        self._model = library.llama_model_load_from_file(file.encode(), settings)
        if not self._model:
            raise RuntimeError("llama.cpp cannot read the file")

    def _context(self, rows: int, length: int) -> Any:
        settings = self._library.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = rows * length, rows
        settings.n_batch, settings.n_ubatch = 2048, 512
        settings.n_threads = settings.n_threads_batch = self._threads
        found = self._library.llama_init_from_model(self._model, settings)
        if not found:
            raise RuntimeError("llama.cpp makes no context")
        return found

    def _run(self, context: Any, tokens: np.ndarray, begin: int, row: int = 0) -> None:
        """A step of tokens [rows, new], which lie at `begin` of rows from `row`. The
        last token of each row gives logits."""
        library, count = self._library, tokens.size
        batch = library.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for at, ((r, column), token) in enumerate(np.ndenumerate(tokens)):
            batch.token[at], batch.pos[at] = int(token), begin + column
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, row + r
            batch.logits[at] = column == tokens.shape[1] - 1
        failed = library.llama_decode(context, batch)
        library.llama_synchronize(context)
        library.llama_batch_free(batch)
        if failed:
            raise RuntimeError(f"llama_decode gives {failed}")

    def _clear(self, context: Any) -> None:
        memory = self._library.llama_get_memory(context)
        self._library.llama_memory_clear(memory, False)

    def read(self, tokens: int, turns: Turns) -> None:
        context = self._context(1, tokens)
        small, whole = prompts(min(tokens, WARM)), prompts(tokens)

        def first(prompt: np.ndarray) -> None:
            self._clear(context)
            for begin in range(0, prompt.shape[1], 2048):
                self._run(context, prompt[:, begin : begin + 2048], begin)

        first(next(small))
        turns.of(lambda: first(next(small)), lambda: first(next(whole)))
        self._library.llama_free(context)

    def decode(self, rows: int, depth: int, turns: Turns) -> None:
        # Contexts are a multiple of 256 tokens long.
        context = self._context(rows, -(-(depth + turns.steps + 1) // 256) * 256)
        for row, prompt in enumerate(next(prompts(depth, rows))):
            for begin in range(0, depth, 2048):
                self._run(context, prompt[None, begin : begin + 2048], begin, row)
        chance = prompts(1, rows)
        for step in range(turns.steps):
            turns.tick()
            self._run(context, next(chance), depth + step)
        turns.tick()
        self._library.llama_free(context)


class OpenVINO:
    """The pipeline of OpenVINO GenAI that serves several requests, which is the one that
    its LLMPipeline uses on x86-64, too."""

    def __init__(self, file: str, threads: int) -> None:
        try:
            import openvino
            import openvino_genai
        except ImportError as problem:
            raise Absent(f"not installed: {problem.name}") from problem
        self._openvino, self._genai = openvino, openvino_genai
        types = types_of(file)
        options: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads}
        if types <= {"F32", "BF16"}:
            # It would compute in bf16 what a file has as f32.
            hint = "f32" if types == {"F32"} else "bf16"
            options["INFERENCE_PRECISION_HINT"] = hint
        scheduler = openvino_genai.SchedulerConfig()
        # A prompt is one step, as in LLMPipeline.
        scheduler.max_num_batched_tokens = 1 << 20
        scheduler.dynamic_split_fuse = False
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            file, scheduler_config=scheduler, device="CPU", properties=options
        )
        self._requests = 0
        # The pipeline drops a request whose handle is gone.
        self._handles: list[Any] = []

    def _add(self, prompt: np.ndarray, new: int) -> None:
        settings = self._genai.GenerationConfig()
        settings.max_new_tokens, settings.do_sample = new, False
        settings.ignore_eos = True
        tokens = self._openvino.Tensor(np.ascontiguousarray(prompt[None], np.int64))
        self._requests += 1
        self._handles.append(
            self._pipeline.add_request(self._requests, tokens, settings)
        )

    def _finish(self, new: int) -> None:
        """Steps until all requests have so many tokens. RuntimeError: one has not."""
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        for handle in self._handles:
            made = sum(len(part.generated_ids) for part in handle.read_all())
            if made != new:
                raise RuntimeError(f"OpenVINO made {made} tokens of {new}")
        self._handles.clear()

    def read(self, tokens: int, turns: Turns) -> None:
        small, whole = prompts(min(tokens, WARM)), prompts(tokens)

        def first(prompt: np.ndarray) -> None:
            self._add(prompt[0], 1)
            self._finish(1)

        first(next(whole))
        turns.of(lambda: first(next(small)), lambda: first(next(whole)))

    def decode(self, rows: int, depth: int, turns: Turns) -> None:
        new = turns.steps + 2
        for prompt in next(prompts(depth, rows)):
            self._add(prompt, new)
        self._pipeline.step()  # reads all prompts
        for _ in range(turns.steps):
            turns.tick()
            self._pipeline.step()
        turns.tick()
        self._finish(new)


ENGINES: dict[str, Callable[[str, int], Any]] = {
    "Anabranch": Anabranch,
    "Anabranch, bytes": functools.partial(Anabranch, exact=False),
    "Anabranch, bytes, bf16": functools.partial(Anabranch, exact=False, narrow=True),
    "llama.cpp": LlamaCpp,
    "OpenVINO": OpenVINO,
}


def types_of(file: str) -> set[str]:
    """The types of a file's matrices."""
    from gguf import GGUFReader

    tensors = GGUFReader(file).tensors
    return {t.tensor_type.name for t in tensors if len(t.shape) > 1}


def versions() -> dict[str, str]:
    """The versions of the programs that this Python has."""
    from importlib import metadata

    found = {}
    for name in ("torch", "llama_cpp_python", "openvino_genai"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", choices=[*ENGINES])
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    # Libraries print: what they say goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        engine = ENGINES[given.name](str(given.file), given.threads)
    except Absent as absent:
        Turns(answers, 0).tell(absent=str(absent))
        return
    except Exception as problem:  # noqa: BLE001
        Turns(answers, 0).tell(error=f"{type(problem).__name__}: {problem}"[:200])
        return
    Turns(answers, 0).tell(made=versions())
    for line in sys.stdin:
        asked = json.loads(line)
        turns = Turns(answers, asked["turns"])
        try:
            if "prompt" in asked:
                engine.read(asked["prompt"], turns)
            else:
                engine.decode(asked["rows"], asked["depth"], turns)
        except Exception as problem:  # noqa: BLE001
            turns.tell(error=f"{type(problem).__name__}: {problem}"[:200])
    # Engines may crash on their own code as they end.
    os._exit(0)


if __name__ == "__main__":
    main()
