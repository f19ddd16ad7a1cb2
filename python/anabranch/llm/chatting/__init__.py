"""The engines of a chat, among them packages in the cache, and its tokenizers."""
