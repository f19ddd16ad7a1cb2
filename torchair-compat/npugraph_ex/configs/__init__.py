"""npugraph_ex.configs: the configuration is in `compiler_config`."""
