"""The inside of torchair. The public modules are thin over it; the test
`test/repo/test_compat_arrows.py` says which wing may import which.
"""
