"""The version of this package, as one string."""

__version__ = "0.1.0"
