"""Makes the pictures of the login pages in _static, for issuer.rst: real pages in a real Chromium, as PNG files with a palette.

``python docs/login_pictures.py`` (or ``make login-pictures``) makes them again after the pages have changed.
"""

import collections
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Dict, List, Tuple

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from mcplite.auth.issuer.pages import ClientInfo, GrantInfo, Pages  # noqa: E402
from mcplite.auth.issuer.users import User  # noqa: E402
from mcplite.server.http.messages import HTTPResponse  # noqa: E402
from tests.support.chromium import Chromium  # noqa: E402

#: Columns of the window; the picture has twice as many.
WIDTH = 500
DESK, PHONE = ClientInfo("c-1", "Desk Assistant"), ClientInfo("c-2", "Pocket Notes")
ANN = User("ann", "Ann Example")
SCOPES = [("notes:read", "Read your notes"), ("notes:write", "Add notes, and change them")]


def pages() -> Dict[str, Tuple[str, HTTPResponse]]:
    """Return the pages by the names of their pictures, each with the scheme that the browser prefers."""
    made = Pages()
    made.server = "Notes"
    form = {"action": "/", "csrf": "x"}
    grants = [GrantInfo("1", DESK, ["notes:read", "notes:write"], 1_793_000_000, 1_796_300_000),
              GrantInfo("2", PHONE, ["notes:read"], 1_788_000_000, 1_796_000_000)]
    loopback, web = "http://127.0.0.1:50123/callback", "https://assistant.example/callback"
    return {
        "login-page": ("light", made.login(**form, client=DESK)),
        "consent-page": ("light", made.consent(**form, client=DESK, user=ANN, scopes=SCOPES, redirect_uri=loopback)),
        "consent-page-dark": ("dark", made.consent(
            **form, client=ClientInfo("c-3", "Web Assistant", "assistant.example"), user=None, scopes=SCOPES[:1],
            redirect_uri=web, upstream="GitHub")),
        "grants-page": ("light", made.grants(**form, user=ANN, grants=grants)),
    }


def pixels(png: bytes) -> Tuple[int, int, List[bytes]]:
    """Return width, height and the rows of a PNG of 8 bits a channel, as red, green and blue."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8 and kind in (2, 6)
    size, at, data = {2: 3, 6: 4}[kind], 8, b""
    while at < len(png):
        length, = struct.unpack(">I", png[at:at + 4])
        if png[at + 4:at + 8] == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += length + 12
    raw, stride = zlib.decompress(data), width * size
    rows, before = [], bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        row, how = bytearray(raw[start + 1:start + 1 + stride]), raw[start]
        for place in range(stride) if how else ():
            left = row[place - size] if place >= size else 0
            above, corner = before[place], before[place - size] if place >= size else 0
            if how == 4:
                distances = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
                guess = (left, above, corner)[distances.index(min(distances))]
            else:
                guess = {1: left, 2: above, 3: (left + above) // 2}[how]
            row[place] = row[place] + guess & 255
        rows.append(bytes(row) if size == 3 else bytes(byte for place, byte in enumerate(row) if place % 4 < 3))
        before = row
    return width, height, rows


def with_palette(png: bytes) -> bytes:
    """Return a picture with its 256 most frequent colors; each other one becomes the nearest of them."""
    width, height, rows = pixels(png)
    found = [[row[at:at + 3] for at in range(0, width * 3, 3)] for row in rows]
    counted = collections.Counter(color for row in found for color in row)
    palette = [color for color, _ in counted.most_common(256)]
    places = {color: place for place, color in enumerate(palette)}
    for color in counted:
        if color not in places:
            places[color] = min(range(len(palette)), key=lambda place: sum(
                (one - other) ** 2 for one, other in zip(palette[place], color)))
    data = zlib.compress(b"".join(b"\0" + bytes(places[color] for color in row) for row in found), 9)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = chunk(b"IHDR", head), chunk(b"PLTE", b"".join(palette)), chunk(b"IDAT", data), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder, Chromium(folder) as browser:
        for name, (scheme, page) in pages().items():
            place = Path(folder, f"{name}.html")
            place.write_bytes(page.content.replace(b" autofocus", b""))
            tab = browser.tab(width=WIDTH, scheme=scheme, scale=2)
            tab.visit(place.as_uri())
            box = tab.evaluate("document.querySelector('main').getBoundingClientRect().toJSON()")
            clip = {"x": 0, "y": box["top"] - 20, "width": WIDTH, "height": box["height"] + 56}
            picture = with_palette(tab.screenshot(clip))
            (DOCS / "_static" / f"{name}.png").write_bytes(picture)
            print(f"_static/{name}.png: {len(picture)} bytes")


if __name__ == "__main__":
    main()
