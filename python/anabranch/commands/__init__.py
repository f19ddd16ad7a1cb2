"""The commands of `anabranch` that need more than a few lines. Start with
`cache_command`.

bench_command    measures latency and throughput of a package or a model
cache_command    lists, shows, verifies, prunes and exports entries of the cache
chat_command     has a language model answer in the terminal
compile_command  writes a package of a model, for this machine or for others
tune_command     times ways to cut up a model's products and keeps the best
"""
