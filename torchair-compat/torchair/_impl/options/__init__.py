"""The options of CompilerConfig: which values they take, and what they do here."""
