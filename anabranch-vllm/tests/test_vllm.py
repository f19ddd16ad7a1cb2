"""A tiny Llama in vLLM gives the tokens of vLLM's own eager run. scripts/vllm_python.py
says when these tests run."""

from __future__ import annotations

import json

import torch
import vllm_python
from vllm_python import needs_vllm

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
import json, prometheus_client, sys
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
    print(prometheus_client.generate_latest().decode())
    print("RESULT", json.dumps(tokens))

if __name__ == "__main__":
    main()
"""


# Raw log-probabilities of tokens that are forced, of prompts and of single tokens.
LOGITS = """
import json, os, sys, torch
from vllm import LLM, SamplingParams

def main():
    folder, arguments = sys.argv[1], json.loads(sys.argv[2])
    if not os.path.exists(folder + "/model.safetensors"):
        from transformers import LlamaConfig, LlamaForCausalLM
        torch.manual_seed(0)
        config = LlamaConfig(**json.loads(sys.argv[3]), initializer_range=0.15)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    llm = LLM(
        folder, skip_tokenizer_init=True, max_model_len=256, max_num_seqs=8,
        max_logprobs=512, seed=0, **arguments,
    )
    forced = SamplingParams(
        temperature=0, max_tokens=6, allowed_token_ids=[7], logprobs=512,
        detokenize=False,
    )
    given = [{"prompt_token_ids": list(range(n, 3 * n))} for n in (1, 9, 30)]
    rows = []
    for prompts in (given, given[1:2]):
        for answer in llm.generate(prompts, forced, use_tqdm=False):
            for found in answer.outputs[0].logprobs:
                rows.append([found[token].logprob for token in range(512)])
    print("RESULT", json.dumps(rows))

if __name__ == "__main__":
    main()
"""
# Tokens before and after a server loads other weights.
RELOAD = """
import json, os, sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
from vllm import LLM, SamplingParams

def write(folder, seed, fields):
    torch.manual_seed(seed)
    config = LlamaConfig(**json.loads(fields), initializer_range=0.15)
    LlamaForCausalLM(config).save_pretrained(f"{folder}/{seed}")

def serve(folder, **arguments):
    return LLM(
        folder, skip_tokenizer_init=True, dtype="float32", max_model_len=64,
        max_num_seqs=2, seed=0, enable_prefix_caching=False, **arguments,
    )

def tokens(llm):
    greedy = SamplingParams(temperature=0, max_tokens=12, detokenize=False)
    (found,) = llm.generate([{"prompt_token_ids": [5, 6, 7]}], greedy)
    return list(found.outputs[0].token_ids)

def main():
    folder, how = sys.argv[1:3]
    paths = [f"{folder}/{seed}" for seed in (0, 1)]
    for seed in (0, 1):
        write(folder, seed, sys.argv[3])
    if how == "fresh":
        print("RESULT", json.dumps([tokens(serve(p, enforce_eager=True)) for p in paths]))
        return
    llm, found = serve(paths[0]), []
    for path in (paths[0], paths[1], paths[0]):
        llm.collective_rpc("reload_weights", kwargs={"weights_path": path})
        found.append(tokens(llm))
    print("RESULT", json.dumps(found))

if __name__ == "__main__":
    main()
"""
BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 128,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "torch_dtype": "float32",
}
EMBEDDINGS = """
import json, sys
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from vllm import LLM

def main():
    words = models.WordLevel({f"w{i}": i for i in range(512)}, unk_token="w0")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words))
    tokenizer.save_pretrained(sys.argv[1])
    llm = LLM(
        sys.argv[1], runner="pooling", load_format="dummy", dtype="float32",
        max_model_len=128, max_num_seqs=8, seed=0, **json.loads(sys.argv[2]),
    )
    found = []
    for sizes in ([5, 1, 40], [7]):
        given = [{"prompt_token_ids": list(range(3, 3 + n))} for n in sizes]
        answers = llm.embed(given, use_tqdm=False)
        found += [answer.outputs.embedding for answer in answers]
    print("RESULT", json.dumps(found))

if __name__ == "__main__":
    main()
"""


def run(folder, script: str, *arguments: str) -> tuple[object, str]:
    """The value that a script prints after RESULT, and all output of its process."""
    (folder / "script.py").write_text(script)
    out, log = vllm_python.run(folder, folder / "script.py", *arguments)
    (line,) = [x for x in out.splitlines() if x.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT ")), out + log


def generate(folder, **arguments) -> tuple[object, str]:
    """The tokens of a model in vLLM, and what the process wrote."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return run(folder, SCRIPT, json.dumps(arguments))


@needs_vllm
def test_tokens_equal_eager(tmp_path) -> None:
    expected, eager = generate(tmp_path, enforce_eager=True)
    assert "Anabranch:" not in eager
    first, log = generate(tmp_path)
    assert first == expected
    assert "Anabranch: 1 program (none from the cache)" in log
    second, log = generate(tmp_path)
    assert second == expected
    assert "Anabranch: compiles" not in log  # vLLM loads the saved graph
    assert "anabranch_loaded_total 2.0" in log  # the log has vLLM's metrics


@needs_vllm
def test_a_worker_that_is_killed_leaves_no_half_graph(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "script.py").write_text(SCRIPT)
    begun = "Anabranch: compiles a graph"
    vllm_python.kill_after(begun, tmp_path, tmp_path / "script.py", "{}")
    assert not [*tmp_path.glob("cache/**/torch_aot_compile/**/model")]
    found, log = generate(tmp_path)
    assert "Anabranch: 1 program" in log
    assert found == generate(tmp_path, enforce_eager=True)[0]


@needs_vllm
def test_a_backend_by_name(tmp_path) -> None:
    """In mode 2: vLLM's default mode refuses all names but its own."""
    expected, _ = generate(tmp_path, enforce_eager=True)
    chosen = {"mode": 2, "backend": "anabranch"}
    found, log = generate(tmp_path, compilation_config=chosen)
    assert found == expected
    assert "Anabranch: 1 program" in log


@needs_vllm
def test_bf16_rounds_no_more_than_eager(tmp_path) -> None:
    def logits(dtype: str, **arguments) -> torch.Tensor:
        chosen = json.dumps({"dtype": dtype, **arguments})
        rows, _ = run(tmp_path, LOGITS, chosen, json.dumps(CONFIG))
        return torch.tensor(rows, dtype=torch.float64)

    expected = logits("float32", enforce_eager=True)
    eager = (logits("bfloat16", enforce_eager=True) - expected).square().mean()
    own = (logits("bfloat16") - expected).square().mean()
    assert expected.std() > 0.5
    assert own.sqrt() <= 2 * eager.sqrt()


@needs_vllm
def test_embeddings_equal_eager(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    expected, _ = run(tmp_path, EMBEDDINGS, json.dumps({"enforce_eager": True}))
    found, log = run(tmp_path, EMBEDDINGS, json.dumps({}))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert "Anabranch: 1 program" in log


@needs_vllm
def test_weights_that_are_loaded_anew(tmp_path) -> None:
    fields = json.dumps(CONFIG)
    (first, second), _ = run(tmp_path, RELOAD, "fresh", fields)
    found, log = run(tmp_path, RELOAD, "reload", fields)
    assert first != second
    assert found == [first, second, first]
    assert "Anabranch: 1 program" in log
