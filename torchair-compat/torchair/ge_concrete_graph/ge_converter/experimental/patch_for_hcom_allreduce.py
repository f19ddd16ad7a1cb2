"""Has no effect: `all_reduce` stands in graphs without it."""
