"""Operators of PyTorch by other names of torch_npu, which older models call."""
