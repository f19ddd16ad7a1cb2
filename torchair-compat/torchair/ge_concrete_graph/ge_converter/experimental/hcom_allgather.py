"""Has no effect: `all_gather` stands in graphs without it."""
