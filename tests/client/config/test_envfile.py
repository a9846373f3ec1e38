"""Files of variables."""

import os
import socket

import pytest

from mcplite.client.config.envfile import read_env_file
from mcplite.client.config.files import load_config
from mcplite.errors import TransportError
from tests.support.systems import posix_only


def test_lines_that_are_understood(tmp_path):
    (tmp_path / "e").write_text("""\
# a comment

A=1
 export B = two words  # a comment
C='single # \\n'
D="double \\"quoted\\"\\nline" # a comment
E=
F=a#b=c
G=first
G=second
""", encoding="utf-8")
    assert read_env_file(str(tmp_path / "e")) == {
        "A": "1", "B": "two words", "C": "single # \\n", "D": 'double "quoted"\nline', "E": "", "F": "a#b=c", "G": "second"}


@pytest.mark.parametrize("text, problem", [
    ("A=1\nhush", "line 2: write NAME=value"), ("A='hush", "line 1: the quote does not end"),
    ('A="hush" b', "line 1: the quote"),
])
def test_other_lines_are_errors_without_their_text(tmp_path, text, problem):
    (tmp_path / "e").write_text(text)
    with pytest.raises(TransportError, match=problem) as caught:
        read_env_file(str(tmp_path / "e"))
    assert "hush" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "e").write_bytes(b"A=\xff")
    for path, problem in ((tmp_path / "none", "there is no file"), (tmp_path, "cannot read|Permission"),
                          (tmp_path / "e", "UTF-8")):
        with pytest.raises(TransportError, match=problem):
            read_env_file(str(path))


@posix_only
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "pipe", "socket"])
def test_a_configuration_is_in_a_regular_file(path, tmp_path):
    if path == "pipe":
        os.mkfifo(tmp_path / path)
    elif path == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / path))
    for read in (read_env_file, load_config):
        with pytest.raises(TransportError, match="regular file|cannot read the .*file"):
            read(str(tmp_path / path))  # an absolute path stays as it is


def test_a_file_that_is_too_large(tmp_path):
    with open(tmp_path / "e", "wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(TransportError, match="larger than 16 MiB"):
        read_env_file(str(tmp_path / "e"))


@posix_only
def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "e").write_text("A=b")
    (tmp_path / "link").symlink_to(tmp_path / "e")
    assert read_env_file(str(tmp_path / "link")) == {"A": "b"}
