"""The operators of scopes, events and printing, and their translation to the compiler's
marks."""
