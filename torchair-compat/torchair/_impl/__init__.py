"""The implementation of torchair; its public modules only forward to it.
`test/repo/test_compat_arrows.py` says which wing may import which."""
