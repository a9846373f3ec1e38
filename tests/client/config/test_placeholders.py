import os

import pytest

from mcplite.client.config.placeholders import Placeholders
from mcplite.errors import TransportError

ENVIRON = {"TOKEN": "t0k", "EMPTY": "", "ProgramFiles(x86)": "C:\\P", "NESTED": "${TOKEN}"}


@pytest.mark.parametrize("text, expected", [
    ("plain", "plain"),
    ("${TOKEN}", "t0k"),
    ("Bearer ${TOKEN}!${TOKEN}", "Bearer t0k!t0k"),
    ("${env:TOKEN}", "t0k"),
    ("${env:ProgramFiles(x86)}", "C:\\P"),
    ("${EMPTY}", ""),
    ("${EMPTY:-other}", "other"),
    ("${MISSING:-other:-x}", "other:-x"),
    ("${MISSING:-}", ""),
    ("${TOKEN:-other}", "t0k"),
    ("${NESTED}", "${TOKEN}"),
    ("${workspaceFolder}/x", "/work space/x"),
    ("${userHome}/x", os.path.expanduser("~") + "/x"),
    ("$TOKEN $$ $ {TOKEN} ${", "$TOKEN $$ $ {TOKEN} ${"),
])
def test_placeholders_are_replaced(text, expected):
    assert Placeholders(ENVIRON, "/work space").fill(text) == expected


@pytest.mark.parametrize("text, message", [
    ("${MISSING}", "variable MISSING is not set"),
    ("${env:MISSING}", "variable MISSING is not set"),
    ("${input:key}", r"\$\{input:key\} would ask the user"),
    ("${command:x}", r"\$\{command:x\} is not supported"),
    ("${}", r"\$\{\} is not supported"),
    ("${a b}", "is not supported"),
    ("${workspaceFolder}", "not in a file"),
])
def test_unsupported_placeholders_are_errors(text, message):
    with pytest.raises(TransportError, match=message):
        Placeholders(ENVIRON, None).fill(text)
