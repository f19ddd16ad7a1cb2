"""RMS norms, and operators that are joined to one."""
