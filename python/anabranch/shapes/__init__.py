"""Programs for sizes that change from call to call.

Start with `gears`; docs/design/shapes.md has the rules.

gears        programs for the sizes that a user names
tiers        programs for the sizes that come, compiled in the background
tier_costs   which of these pay, and when there is time to compile them
ahead        compiles in a thread what no call has asked for yet
eager_tier   PyTorch runs calls that have no program yet, while a thread compiles it
unit_sizes   programs for sizes of one, compiled after the first call
small_sizes  programs for sizes that a trace excludes, for callers without guards
"""
