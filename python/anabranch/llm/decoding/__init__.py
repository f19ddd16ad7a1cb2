"""The decoding loop of plain calls of generate(), and the masks of its steps."""
