"""The operators of torch_npu, a folder for each subject."""
