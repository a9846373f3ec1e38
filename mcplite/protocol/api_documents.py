"""Which files are OpenAPI documents: known by the version in them, without a parser of YAML."""

import os
import re

__all__ = ["is_api_document"]

_SUFFIXES = (".json", ".yaml", ".yml")
#: The member that has the version, in JSON or YAML.
_VERSION = re.compile(rb"""["']?\b(?:openapi|swagger)["']?\s*:\s*["']?[23]\.\d""")
#: Bytes of a file that are searched; in a document whose members are sorted, the version stands behind all schemas.
_MOST_BYTES = 64 << 20


def is_api_document(path: str) -> bool:
    """Return whether a path names a file of JSON or YAML that is an OpenAPI or Swagger document, and can be read."""
    if not path.endswith(_SUFFIXES) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return _VERSION.search(file.read(_MOST_BYTES)) is not None
    except OSError:
        return False  # the next reader says why it cannot be read
