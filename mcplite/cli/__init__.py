"""The command line of the client's side, in parts: arguments, printing, asking, commands.

May import: nothing of ours.
"""
