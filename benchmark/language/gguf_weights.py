"""Writes GGUF files, so that every program reads the same weights.

gguf_weights.py SmolLM2 Q8_0 FILE   SmolLM2's own weights, rounded to another type
gguf_weights.py 264 Q4_1 FILE       a Llama of 264 million random weights
gguf_weights.py model.gguf BF16 FILE

A made model has the words and the tokenizer of SmolLM2. Vectors (norms) stay F32, and an
embedding, which gives the logits too, has 8 bits where matrices have 4: SmolLM2's own file
is like that. The package `gguf` rounds. The same name and type give the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# Types of matrices, and what a file with them calls itself.
TYPES = {
    "Q4_0": "MOSTLY_Q4_0",
    "Q4_1": "MOSTLY_Q4_1",
    "Q8_0": "MOSTLY_Q8_0",
    "BF16": "MOSTLY_BF16",
    "F16": "MOSTLY_F16",
    "F32": "ALL_F32",
}
# A standard deviation with which activations neither grow nor vanish.
SPREAD = 0.02
# Millions of weights: width, layers, heads of keys and values. Heads are 64 wide, and
# the width of a feed-forward network is 2.75 of a layer's.
MADE = {"264": (1024, 16, 8), "1100": (2048, 22, 4)}
HEAD, WIDER = 64, 2.75
EMBEDDING = "token_embd.weight"

Tensors = Iterator[tuple[str, np.ndarray]]


def write(source: str, kind: str, path: Path, base: str = "SmolLM2") -> None:
    """The file `path` of the weights `source`, whose matrices have the type `kind`. A
    made model has the words of the model `base`."""
    from gguf import GGUFReader, GGUFWriter, LlamaFileType

    from anabranch.llm.model_files import find

    made = source in MADE
    reader = GGUFReader(find(base if made else source))
    arch = reader.fields["general.architecture"].contents()
    part = path.with_name(path.name + ".part")
    writer = GGUFWriter(part, arch)
    for name, field in reader.fields.items():
        own = name.startswith(("GGUF.", "general.architecture", "general.file_type"))
        if not own and not (made and name.startswith(f"{arch}.")):
            copy_field(writer, name, field)
    # OpenVINO reads no file without it.
    writer.add_file_type(LlamaFileType[TYPES[kind]])
    tensors = floats(reader)
    if made:
        words = embedded_words(reader)
        describe(writer, MADE[source], words)
        tensors = made_tensors(MADE[source], words)
    for name, values in tensors:
        add(writer, name, values, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(path)


def embedded_words(reader: Any) -> int:
    (found,) = (t for t in reader.tensors if t.name == EMBEDDING)
    return int(found.shape[-1])


def copy_field(writer: Any, name: str, field: Any) -> None:
    from gguf import GGUFValueType

    is_list = field.types[0] == GGUFValueType.ARRAY
    inner = field.types[-1] if is_list else None
    writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)


def describe(writer: Any, sizes: tuple[int, int, int], words: int) -> None:
    """The sizes of a made Llama."""
    width, layers, groups = sizes
    writer.add_block_count(layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(int(width * WIDER))
    writer.add_head_count(width // HEAD)
    writer.add_head_count_kv(groups)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(words)


def made_tensors(sizes: tuple[int, int, int], words: int) -> Tensors:
    """Random weights. The embedding gives the logits too."""
    width, layers, groups = sizes
    wide, keys = int(width * WIDER), groups * HEAD
    chance = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        found = chance.standard_normal((rows, columns), np.float32)
        found *= SPREAD
        return found

    yield EMBEDDING, matrix(words, width)
    for layer in range(layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", np.ones(width, np.float32)
        yield f"{block}.attn_q.weight", matrix(width, width)
        yield f"{block}.attn_k.weight", matrix(keys, width)
        yield f"{block}.attn_v.weight", matrix(keys, width)
        yield f"{block}.attn_output.weight", matrix(width, width)
        yield f"{block}.ffn_norm.weight", np.ones(width, np.float32)
        yield f"{block}.ffn_gate.weight", matrix(wide, width)
        yield f"{block}.ffn_up.weight", matrix(wide, width)
        yield f"{block}.ffn_down.weight", matrix(width, wide)
    yield "output_norm.weight", np.ones(width, np.float32)


def floats(reader: Any) -> Tensors:
    """The tensors of a file as floats."""
    from gguf.quants import dequantize

    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        yield tensor.name, values.reshape(tuple(map(int, tensor.shape[::-1])))


def add(writer: Any, name: str, values: np.ndarray, kind: str) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    if values.ndim == 1:
        kind = "F32"
    elif name == EMBEDDING and kind.startswith("Q4"):
        kind = "Q8_0"
    kept = GGMLQuantizationType[kind]
    values = np.ascontiguousarray(values, np.float32)
    if kept == GGMLQuantizationType.F32:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, quantize(values, kept), raw_dtype=kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("source", help=f"SmolLM2, a GGUF file, or {', '.join(MADE)}")
    parser.add_argument("kind", choices=TYPES)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    write(given.source, given.kind, given.file)


if __name__ == "__main__":
    main()
