"""Small GGUF files of a Llama, as llama.cpp's converter orders their tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HIDDEN, WIDE, HEADS, KEY_HEADS, WORDS = 256, 512, 4, 2, 101
# The first are types whose blocks `gguf.quantize` makes. The others get random bytes;
# the numbers say at which bytes f16 values are.
MADE = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
RANDOM = {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
TYPES = (*MADE, *RANDOM)


def random_blocks(kind: str, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """uint8 [rows, bytes of a row] with small f16 numbers."""
    import gguf

    random = np.random.default_rng(seed)
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for at in RANDOM[kind]:
        numbers = random.uniform(-1e-3, 1e-3, (len(blocks), 1)).astype(np.float16)
        blocks[:, at : at + 2] = numbers.view(np.uint8)
    return blocks.reshape(rows, -1)


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of query or key in the order of llama.cpp's rotary embedding: the halves of
    a head alternate."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


class LlamaFile:
    """Writes a file. `weights` are its floats before quantisation, by transformers'
    names."""

    def __init__(
        self, path: Path, *, types: tuple[str, ...], tied: bool = True
    ) -> None:
        """`types` are those of the matrices, in turns."""
        import gguf

        self.weights: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(7)
        self._types, self._count = types, 0
        self._writer = gguf.GGUFWriter(path, "llama")
        self._layers = -(-len(types) // 7)
        self._settings()
        self._matrix("token_embd", "model.embed_tokens", WORDS, HIDDEN)
        if not tied:
            self._matrix("output", "lm_head", WORDS, HIDDEN)
        self._vector("output_norm")
        for layer in range(self._layers):
            self._layer(f"blk.{layer}", f"model.layers.{layer}")
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()

    def _settings(self) -> None:
        writer = self._writer
        writer.add_context_length(64)
        writer.add_embedding_length(HIDDEN)
        writer.add_block_count(self._layers)
        writer.add_feed_forward_length(WIDE)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KEY_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(10000.0)
        writer.add_rope_dimension_count(HIDDEN // HEADS)
        writer.add_vocab_size(WORDS)

    def _layer(self, name: str, given: str) -> None:
        self._vector(f"{name}.attn_norm")
        self._vector(f"{name}.ffn_norm")
        keys = HIDDEN // HEADS * KEY_HEADS
        self._matrix(
            f"{name}.attn_q", f"{given}.self_attn.q_proj", HIDDEN, HIDDEN, HEADS
        )
        self._matrix(
            f"{name}.attn_k", f"{given}.self_attn.k_proj", keys, HIDDEN, KEY_HEADS
        )
        self._matrix(f"{name}.attn_v", f"{given}.self_attn.v_proj", keys, HIDDEN)
        self._matrix(f"{name}.attn_output", f"{given}.self_attn.o_proj", HIDDEN, HIDDEN)
        self._matrix(f"{name}.ffn_gate", f"{given}.mlp.gate_proj", WIDE, HIDDEN)
        self._matrix(f"{name}.ffn_up", f"{given}.mlp.up_proj", WIDE, HIDDEN)
        self._matrix(f"{name}.ffn_down", f"{given}.mlp.down_proj", HIDDEN, WIDE)

    def _vector(self, name: str) -> None:
        values = self._random.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
        self._writer.add_tensor(f"{name}.weight", values)

    def _matrix(
        self, name: str, given: str, rows: int, columns: int, heads: int = 0
    ) -> None:
        import gguf

        kind = self._types[self._count % len(self._types)]
        self._count += 1
        raw = gguf.GGMLQuantizationType[kind]
        if kind in RANDOM:
            data = random_blocks(kind, rows, columns, self._count)
        else:
            values = self._random.normal(0, 0.05, (rows, columns)).astype(np.float32)
            self.weights[f"{given}.weight"] = values
            stored = permuted(values, heads) if heads else values
            data = (
                stored.astype(np.int8) if kind == "I8" else gguf.quantize(stored, raw)
            )
        self._writer.add_tensor(f"{name}.weight", data, raw_dtype=raw)
