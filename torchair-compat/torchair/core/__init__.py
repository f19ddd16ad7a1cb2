"""Parts of torchair that scripts import by path."""
