"""Programs for sizes that change: gears, tiers, and sizes of one."""
