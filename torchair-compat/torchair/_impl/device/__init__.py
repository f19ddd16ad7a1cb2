"""The name `npu` in PyTorch, and what torch.npu offers besides streams."""
