"""The command line of the client's side, in parts: arguments, asking, printing.

May import: nothing of ours.
"""
