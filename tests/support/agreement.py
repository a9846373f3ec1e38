"""Schema and converter of one annotation, and the proof that both accept the same."""

import json

import jsonschema
import pytest

from mcplite.server.functions.converters import Mismatch
from mcplite.server.functions.schemas import Schemas


def compiled(annotation, **options):
    """Return the node of an annotation, and its schema with the definitions that it refers to."""
    schemas = Schemas("tool 'it'", **options)
    node = schemas.compile(annotation, "arg")
    return node, {**node.schema, **({"$defs": schemas.definitions} if schemas.definitions else {})}


def agree(annotation, accepted, rejected, unconvertible=(), lenient=False):
    """Check that schema and binder accept the first, refuse the second, and that only the binder refuses the third.

    :param accepted: JSON texts; in a dict with the values that they become, None for any.
    :param lenient: whether the schema may refuse the third as well.
    :return: the schema.
    """
    node, schema = compiled(annotation)
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    for text in accepted:
        assert valid(json.loads(text)), text
        made, wanted = node.convert(json.loads(text)), accepted[text] if isinstance(accepted, dict) else None
        if wanted is not None:
            assert type(made) is type(wanted) and _same(made, wanted), text
    for text in (*rejected, *unconvertible):
        assert lenient and text not in rejected or valid(json.loads(text)) is (text not in rejected), text
        with pytest.raises(Mismatch):
            node.convert(json.loads(text))
    return schema


def _same(made, wanted):
    if not hasattr(made, "shape") or made.shape == ():
        return made == wanted
    return made.dtype == wanted.dtype and made.shape == wanted.shape and made.tolist() == wanted.tolist()
