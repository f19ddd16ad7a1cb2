"""MiniLM's vectors of the example's sentences: sentences.py EXAMPLE RESULT"""

import runpy
import sys

import numpy
import torch

example = runpy.run_path(sys.argv[1])
model, inputs = example["load"]()
compiled = torch.compile(model, backend="anabranch", dynamic=False)
with torch.no_grad():
    vectors = example["embed"](compiled, inputs)
numpy.save(sys.argv[2], vectors.numpy())
