"""Draws tokens in a compiled graph, as transformers and torch.multinomial do."""
