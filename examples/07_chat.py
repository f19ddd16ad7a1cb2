"""A language model with its real weights answers in the terminal.

The same as `anabranch chat`, with the same arguments: --prompt, --compare, ...
"""

from __future__ import annotations

import sys

from anabranch.cli import main

if __name__ == "__main__":
    sys.exit(main(["chat", *sys.argv[1:]]))
