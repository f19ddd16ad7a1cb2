"""Operators of language models: routing to experts, caches of keys, older attentions."""
