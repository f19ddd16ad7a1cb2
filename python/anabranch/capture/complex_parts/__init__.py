"""Computes complex tensors as two real ones, so that kernels compute them. Start with
`rewrite`.

rewrite     rewrites the complex operators of a graph
values      a complex value as its parts, and the table of rules
arithmetic  rules of operators that compute element by element
functions   rules of exponentials, logarithms, roots, and functions of angles
products    rules of matrix products
moves       rules of operators that move, choose, add up or make elements
transforms  rules of Fourier transforms, and the operators that they are made of
"""
