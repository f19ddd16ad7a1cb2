"""torch_npu: the host as a device, its operators and its formats."""
