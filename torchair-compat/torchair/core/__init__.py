"""Modules of torchair that scripts import by path."""
