"""Loads a model whose weights stay in the integers of its GGUF file.

transformers reads the configuration. It also says which tensor of the file is which
parameter, and how its rows are ordered. Rows of blocks are reordered as rows of floats
are. A tensor whose columns or values change is converted to floats first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import gguf_blocks
from .quantized_layers import (
    QuantizedEmbedding,
    QuantizedLayer,
    QuantizedLinear,
    QuantizedWeight,
)

# Processors of transformers that do not change the columns of a matrix.
KEEP_COLUMNS = {
    "TensorProcessor",
    "LlamaTensorProcessor",
    "Qwen2MoeTensorProcessor",
    "Gemma2TensorProcessor",
    "NemotronTensorProcessor",
}


def knows(path: Path) -> bool:
    """Whether this module can load the file's architecture. transformers has other
    readers for some architectures, none of which has a plain cache of keys and values.
    """
    import gguf
    from transformers.integrations.gguf import is_gguf_arch_supported

    reader = gguf.GGUFReader(str(path))
    architecture = reader.fields["general.architecture"].contents()
    return not is_gguf_arch_supported(architecture)


def load(path: Path, dtype: torch.dtype) -> Any:
    """The model, in eval mode.

    Linear layers and embeddings are quantised layers if the file has them in blocks of
    few bits; other parameters have this dtype. ValueError: the type of a tensor is not
    known, or a parameter is missing.
    """
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    tensors = _Tensors(path, model)
    # The model is on the meta device: its parameters have no values to copy.
    floats = {name: value.to(dtype) for name, value in tensors.floats.items()}
    model.load_state_dict(floats, strict=False, assign=True)
    for name, (blocks, kind) in tensors.blocks.items():
        _put(model, name, gguf_blocks.unpack(blocks, kind), dtype)
    _tie(model)
    _check_whole(model, path)
    return model.eval().requires_grad_(False)


class _Tensors:
    """The tensors of a file, by the names of a model's parameters."""

    def __init__(self, path: Path, model: Any) -> None:
        import gguf
        from transformers import modeling_gguf_pytorch_utils as reading

        self.floats: dict[str, torch.Tensor] = {}
        self.blocks: dict[str, tuple[torch.Tensor, str]] = {}
        self._dequantize, self._path = gguf.dequantize, path
        reader = gguf.GGUFReader(str(path))
        architecture = reader.fields["general.architecture"].contents()
        known = reading.load_gguf_checkpoint(str(path), return_tensors=False)
        make = reading.TENSOR_PROCESSORS.get(architecture, reading.TensorProcessor)
        self._keeps_columns = make.__name__ in KEEP_COLUMNS
        self._processor = make(config=known["config"])
        self._names = reading.get_gguf_hf_weights_map(model, self._processor)
        for tensor in reader.tensors:
            self._add(tensor)

    def _add(self, tensor: Any) -> None:
        kind = tensor.tensor_type.name
        packed = (
            self._keeps_columns
            and len(tensor.shape) == 2
            and gguf_blocks.is_packed(kind)
        )
        found = self._processor.process(
            weights=tensor.data if packed else self._values(tensor),
            name=tensor.name,
            tensor_key_mapping=self._names,
            # A processor that joins several tensors leaves the result here.
            parsed_parameters={"tensors": self.floats},
        )
        name = self._names.get(found.name)
        if name is None:
            return
        values = torch.tensor(found.weights)
        if packed:
            self.blocks[name] = values, kind
        else:
            self.floats[name] = values

    def _values(self, tensor: Any) -> Any:
        try:
            return self._dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ValueError(
                f"the tensor {tensor.name} of {self._path} has the type"
                f" {tensor.tensor_type.name}, which the gguf package cannot read:"
                " convert the file to another type, for instance Q8_0 or Q4_K"
            ) from error


def _put(model: Any, name: str, weight: QuantizedWeight, dtype: torch.dtype) -> None:
    """Replaces the layer with this parameter. A module of another kind gets floats."""
    owner, _, attribute = name.rpartition(".")
    module = model.get_submodule(owner)
    if type(module) is nn.Linear:
        model.set_submodule(owner, QuantizedLinear(weight, module.bias))
    elif type(module) is nn.Embedding:
        model.set_submodule(owner, QuantizedEmbedding(weight, dtype))
    else:
        values = weight.dequantized().to(dtype)
        setattr(module, attribute, nn.Parameter(values, requires_grad=False))


def _tie(model: Any) -> None:
    """Ties the output layer to the embedding: a file has tied weights only once."""
    if not model.config.get_text_config(decoder=True).tie_word_embeddings:
        return
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or isinstance(head, QuantizedLayer):
        return
    if isinstance(embedding, QuantizedLayer):
        model.set_output_embeddings(QuantizedLinear(embedding.quantized(), head.bias))
    else:
        head.weight = embedding.weight


def _check_whole(model: Any, path: Path) -> None:
    missing = [name for name, value in model.named_parameters() if value.is_meta]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{path} has no tensor for {missing[0]}{more}: the file is not complete, or"
            f" transformers does not know its layout of {type(model).__name__}"
        )
