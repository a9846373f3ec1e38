"""A Python function becomes a JSON Schema, a binder of arguments and an encoder of results."""
