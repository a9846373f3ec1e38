"""The command ``describe``: definitions in words, and examples of commands."""
