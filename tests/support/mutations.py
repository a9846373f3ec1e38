"""Where a JSON value can be changed, for tests that break valid messages."""


def places(value, path=()):
    """Return the paths to all members and items of a JSON value, and to itself."""
    found = [path]
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places(value[key], (*path, key))
    return found
