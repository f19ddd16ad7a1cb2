"""Boxes of detection models: how much they overlap, and which of them stay."""
