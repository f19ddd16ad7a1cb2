"""The collectives of torch.distributed in a graph.

A program calls the compiler's own version of each collective. A pass begins a
collective early and waits for it late, so that other operators run meanwhile. Start with
`operators`; docs/design/distributed.md has the reasons.

operators  which operators are collectives, and the version that a program calls
groups     names of process groups that all processes share
failures   what the error of a collective says about the call and the other ranks
overlap    the pass that begins collectives early and waits for them late
"""
