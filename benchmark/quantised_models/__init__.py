"""Cases of models that PyTorch's quantisation made."""
