"""Greedy tokens of a package of a language model: greedy.py PACKAGE COUNT TOKEN..."""

import sys

import numpy as np

import anabranch

SIZE = 16  # of a part of the prompt

package, count = anabranch.load(sys.argv[1]), int(sys.argv[2])
tokens = [int(word) for word in sys.argv[3:]]
wanted, done = len(tokens) + count, 0
while len(tokens) < wanted:
    size = SIZE if len(tokens) - done > 1 else 1
    read = tokens[done : done + size]
    part = np.zeros((1, size), np.int64)
    part[0, : len(read)] = read
    logits = package(
        tokens=part, start=np.array([done]), last=np.array([len(read) - 1])
    )
    done += len(read)
    if done == len(tokens):
        tokens.append(int(logits[0].argmax()))
print(tokens[-count:])
