"""Torchair's interface, wing by wing; `test/repo/test_compat_arrows.py` has the arrows."""
