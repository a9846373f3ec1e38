"""What browsers are told: fixed pages, in which nothing runs and from which nothing leaks."""

import html.parser

import pytest

from mcplite.auth.login import page

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=y>\r\nSet-Cookie: a=b"


class Reader(html.parser.HTMLParser):
    """Notes the elements of a page, and its text outside of the style."""

    def __init__(self):
        super().__init__()
        self.elements, self.text, self._style = [], "", False

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self._style = tag == "style"

    def handle_endtag(self, tag):
        self._style = False

    def handle_data(self, data):
        self.text += "" if self._style else data


def read(response):
    """Return the status, the headers and the page of a response."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    reader = Reader()
    reader.feed(body.decode("utf-8"))
    return int(first.split(" ")[1]), headers, reader, body


ALL = [
    page.completed(EVIL), page.failed(EVIL, EVIL), page.unfinished(EVIL),
    *(page.refusal(status) for status in (400, 404, 405, 414, 421, 431, 505, 501)),
]


@pytest.mark.parametrize("response", ALL)
def test_nothing_of_a_page_runs_is_kept_or_comes_from_elsewhere(response):
    _, headers, reader, body = read(response)
    assert headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Connection"] == "close"
    assert headers["Content-Length"] == str(len(body))
    assert "Set-Cookie" not in headers
    assert set(reader.elements) == {"html", "head", "meta", "title", "style", "body", "h1", "p"}
    assert b"url(" not in body and b"@import" not in body


@pytest.mark.parametrize("response, status, words", [
    (page.completed("weather"), 200, ["You are logged in", "weather", "close this page"]),
    (page.failed("weather", "no such user"), 400, ["failed", "weather", "no such user"]),
    (page.unfinished("weather"), 400, ["not completed", "weather", "start again"]),
])
def test_a_page_says_what_happened_and_for_which_server(response, status, words):
    found, _, reader, _ = read(response)
    assert found == status
    assert [word for word in words if word not in reader.text] == []


def test_foreign_texts_are_escaped():
    _, _, reader, body = read(page.failed("<b>weather</b>", EVIL))
    assert "<b>weather</b>" in reader.text
    assert "<script>alert(1)</script>\"'&<img src=x onerror=y> Set-Cookie: a=b" in reader.text
    assert b"<script" not in body and b"<img" not in body and b'"\'&' not in body


@pytest.mark.parametrize("length, shown", [
    (200, "x" * 200), (201, "x" * 199 + "\u2026"), (1 << 20, "x" * 199 + "\u2026"),
])
def test_a_long_text_is_cut(length, shown):
    _, _, reader, body = read(page.failed("weather", "x" * length))
    assert max(reader.text.split(), key=len) == shown
    assert len(body) < 2000


def test_a_text_with_half_a_character_is_shown_without_it():
    assert "a?b" in read(page.failed("weather", "a\ud800b"))[2].text


def test_braces_are_only_braces():
    assert "{title}" in read(page.failed("{paragraphs}", "{title}"))[2].text


def test_a_refusal_reveals_nothing_about_the_login():
    for status in (400, 404, 405, 421):
        found, headers, reader, _ = read(page.refusal(status))
        assert found == status
        assert ("Allow" in headers) == (status == 405)
        assert "Logging in" not in reader.text and "complete" not in reader.text


def test_head_gets_no_body():
    response = page.refusal(405, with_body=False)
    assert response.endswith(b"\r\n\r\n")
    assert read(response)[:2] == read(page.refusal(405))[:2]
