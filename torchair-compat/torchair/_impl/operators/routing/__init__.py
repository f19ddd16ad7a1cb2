"""Experts: chooses them, orders rows by them, and sends rows to their ranks."""
