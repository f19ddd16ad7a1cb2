"""Graphs whose sizes, branches and loops the data decides, beside their peers."""
