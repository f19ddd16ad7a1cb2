"""The name `npu` in PyTorch, and the functions of torch.npu besides streams."""
