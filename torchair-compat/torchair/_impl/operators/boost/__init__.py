"""Operators of the transformer boost library, torch.ops.atb."""
