"""The version of this package, as one string.

May import: nothing of ours.
"""

__version__ = "0.1.0"
