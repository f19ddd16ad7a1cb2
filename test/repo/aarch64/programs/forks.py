"""A child that is forked after a call calls the compiled model too."""

import os

import torch

import anabranch

model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU()).eval()
compiled = anabranch.compile(model)
with torch.no_grad():
    x = torch.randn(8, 32)
    wanted = model(x)
    torch.testing.assert_close(compiled(x), wanted, atol=1e-5, rtol=1e-5)
    child = os.fork()
    if child == 0:
        equal = torch.allclose(compiled(x), wanted, atol=1e-5)
        os._exit(0 if equal else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.testing.assert_close(compiled(x), wanted, atol=1e-5, rtol=1e-5)
print("forked")
