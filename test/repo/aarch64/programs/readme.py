"""Runs the Python blocks of README.md, each as a module of its own: readme.py README"""

import importlib.util
import re
import sys
from pathlib import Path

import torch

blocks = re.findall(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.DOTALL)
for number, block in enumerate(blocks):
    torch._dynamo.reset()
    path = Path(f"block{number}.py")
    path.write_text(block)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
print(f"ran {len(blocks)} blocks")
