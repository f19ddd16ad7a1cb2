"""Scopes, events and printing: their operators, and their translation to the compiler's
marks.
"""
