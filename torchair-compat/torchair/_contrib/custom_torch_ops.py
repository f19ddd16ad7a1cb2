"""Operators of torch_npu: importing it defines them, as importing torchair does."""
