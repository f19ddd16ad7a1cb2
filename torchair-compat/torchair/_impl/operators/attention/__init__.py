"""Attention: of prompts, of new tokens, latent, and for training code."""
