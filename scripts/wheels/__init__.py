"""Makes the distributions, for `make wheel`, `pip install .` and the sdist."""
