"""Right calls of operators of torch_npu, by their subjects. operator_calls has them all."""
