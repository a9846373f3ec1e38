"""Limits for tests, with other values of what an operator cannot set: shares of the memory and constants."""

import dataclasses

from mcplite.server.limits import Limits


def tight(**given):
    """Return limits with these values, each under its name in the source."""
    fields = {field.name for field in dataclasses.fields(Limits)}
    limits = Limits(**{name: value for name, value in given.items() if name in fields})
    for name, value in given.items():
        assert hasattr(Limits, name) or name in fields, name
        vars(limits)[name] = value if name not in fields else getattr(limits, name)
    return limits
