"""torch_npu: the device that is the host, its operators and its formats."""
