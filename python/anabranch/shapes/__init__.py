"""Programs for sizes: given ones, those that come, and sizes of one."""
