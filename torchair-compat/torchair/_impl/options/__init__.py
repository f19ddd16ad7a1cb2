"""The options of CompilerConfig: the values that they take, and their effect on this
host."""
