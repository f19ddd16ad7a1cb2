"""Collectives of torch.distributed that Dynamo does not trace by itself."""
