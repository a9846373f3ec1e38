"""The pages for a browser that comes back from a login, or that comes to the wrong URL."""

import html
from typing import Optional

__all__ = ["completed", "failed", "refusal", "unfinished"]

#: Fixed texts without scripts, and nothing from elsewhere: what an authorization server says must not run here, and the
#: address with the code in it must not leave by a Referer (AUTH-43).
_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Connection", "close"),
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; line-height: 1.5; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; font-weight: 600; }}
</style>
</head>
<body>
<h1>{title}</h1>
{paragraphs}
</body>
</html>
"""
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    414: "URI Too Long", 421: "Misdirected Request", 431: "Request Header Fields Too Large",
    505: "HTTP Version Not Supported",
}
_REFUSALS = {
    400: "This is not the answer to the current login. If you were logging in, start again from the program.",
    404: "There is nothing here.",
    405: "Only a browser that comes back from a login is answered here.",
}
#: Characters of a foreign text that are shown.
_LONGEST = 200


def completed(server: str) -> bytes:
    """Return the response for a login that has succeeded."""
    return _response(200, "You are logged in", f"The login for {_cut(server)} is complete.",
                     "You can close this page and go back to the program.")


def failed(server: str, text: str) -> bytes:
    """Return the response for a login that has failed.

    :param text: why; cut to 200 characters, and escaped.
    """
    return _response(400, "The login has failed", f"Logging in to {_cut(server)} did not work:", _cut(text),
                     "The program that asked you to log in can tell more.")


def unfinished(server: str) -> bytes:
    """Return the response for a login that the program gave up after the browser had come back."""
    return _response(400, "The login was not completed", f"The program has stopped logging in to {_cut(server)}.",
                     "To log in, start again from there.")


def refusal(status: int, *, with_body: bool = True) -> bytes:
    """Return the response for a request that is not the answer to a login; it reveals nothing about the login.

    :param with_body: False for HEAD.
    """
    text = _REFUSALS.get(status, "This request is not understood here.")
    return _response(status, _REASONS.get(status, "Bad Request"), text, with_body=with_body)


def _cut(text: str) -> str:
    plain = " ".join(str(text).split())
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST - 1] + "\u2026"


def _response(status: int, title: str, *paragraphs: Optional[str], with_body: bool = True) -> bytes:
    shown = "\n".join(f"<p>{html.escape(text)}</p>" for text in paragraphs if text)
    # Lone surrogates, which JSON can carry, have no encoding in UTF-8.
    body = _PAGE.format(title=html.escape(title), paragraphs=shown).encode("utf-8", "replace")
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Bad Request')}"]
    lines += [f"{name}: {value}" for name, value in _HEADERS]
    lines += ["Allow: GET"] if status == 405 else []
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("ascii") + (body if with_body else b"")
