"""Methods and functions that one process compiles and later processes load.

Start with `cache_compile`.

cache_compile  anabranch's cache_compile with TorchAir's folders and messages
no_guard       functions that are compiled once and saved in the user's folder
process_name   the name of this process in TorchAir's folders
"""
