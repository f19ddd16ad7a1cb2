"""The options of CompilerConfig: what they take, and what they do here."""
