"""The commands of `anabranch` that need more than a few lines, one a module. Start with
`cache`.

bench    measures latency and throughput
cache    lists, shows and empties the compile cache
chat     has a language model answer in the terminal
compile  writes a package of a model, for this machine or for others
tune     times a model's products and keeps what wins
"""
