"""How the distributions are made: `make wheel`, `pip install .` and the sdist."""
