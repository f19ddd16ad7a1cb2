"""What a chat needs besides a terminal: engines as packages, tokenizers that were saved."""
