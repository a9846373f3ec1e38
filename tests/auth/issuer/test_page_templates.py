"""Templates and texts of one's own, what is checked about them, and the contrast of the style sheet."""

import base64
import hashlib
import re

import pytest

from mcplite.auth.issuer import page_templates as module
from mcplite.auth.issuer.pages import Pages
from tests.support.login_pages import ALL, consent, error, login


def test_texts_can_be_replaced():
    pages = Pages(texts={"lang": "de", "login_title": "Bei $server anmelden", "log_in": "Anmelden <jetzt>",
                         "Wrong link": "Falscher Link"})
    pages.server = "Notizen"
    page = login(pages)
    assert page.one("html")["lang"] == "de" and "Bei Notizen anmelden" in page.text and "Anmelden <jetzt>" in page.text
    assert "Falscher Link" in error(pages).text


@pytest.mark.parametrize("texts, problem", [
    ({"log_inn": "x"}, "there is no text 'log_inn'"), ({"login_title": "$serve"}, r"names \$serve; known here are \$server"),
    ({"log_in": "$server"}, "known here are no names"), ({"log_in": "5 $"}, r"write \$\$"),
])
def test_a_wrong_text_is_an_error_at_once(texts, problem):
    with pytest.raises(ValueError, match=problem):
        Pages(texts=texts)


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, "utf-8")
    return folder


def test_templates_can_be_replaced(tmp_path):
    own = "<h1>$login_title</h1>$error<form method=post action='$action'><input name=csrf value='$csrf'>" \
          "<input name=username value='$username'><input name=password type=password></form>"
    pages = Pages(write(tmp_path, login__html=own, style__css="h1 { color: teal }", **{"readme.txt": "$"}))
    page = login(pages)
    assert page.one("form")["action"] == "/authorize/login?t=1" and page.one("input", name="csrf")["value"] == "token"
    assert "h1 { color: teal }" in page.source
    digest = base64.b64encode(hashlib.sha256(b"h1 { color: teal }").digest()).decode()
    assert page.policy["style-src"] == f"'sha256-{digest}'" and page.policy["img-src"] == "data: 'self'"
    assert "Allow access" in consent(pages).text


def test_the_style_sheets_of_a_frame_of_ones_own_are_allowed(tmp_path):
    frame = "<title>$title</title><style>a{}</style><style media=print>$style</style>$body"
    assert len(login(Pages(write(tmp_path, page__html=frame))).policy["style-src"].split()) == 2


@pytest.mark.parametrize("files, problem", [
    ({"logn__html": "x"}, "replaces no template; there are page.html"),
    ({"login__html": "$action $error $username"}, r"lacks \$csrf"),
    ({"consent__html": "$action $csrf $scopes $redirect $origin"}, r"lacks \$consent_for"),
    ({"consent__html": "$action $csrf $scopes $consent_for $origin"}, r"lacks \$redirect"),
    ({"login__html": "$action $csrf $error $username $nme"}, r"names \$nme"),
    ({"error__html": "$heading $text\n\n$5"}, r"line 3: a dollar sign"),
])
def test_a_wrong_template_is_an_error_at_once(tmp_path, files, problem):
    with pytest.raises(ValueError, match=problem):
        Pages(write(tmp_path, **files))


def test_a_folder_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        Pages(tmp_path / "none")
    (tmp_path / "login.html").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="cannot be read"):
        Pages(tmp_path)


@pytest.mark.parametrize("name", sorted(set(module._TEMPLATES) - {"style.css"}))
def test_a_copy_of_each_template_is_accepted(tmp_path, name):
    (tmp_path / name).write_text(module._TEMPLATES[name], "utf-8")
    for show in ALL:
        assert show(Pages(tmp_path)).source == show(Pages()).source


def luminance(color):
    parts = [int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("front, back, least", [
    ("text", "card", 4.5), ("muted", "card", 4.5), ("accent", "card", 4.5), ("on-accent", "accent", 4.5), ("text", "soft", 4.5),
    ("bad", "on-bad", 4.5), ("edge", "card", 3.0), ("text", "page", 4.5),
])
def test_contrast_is_that_of_wcag_aa(mode, front, back, least):
    style = login(Pages()).source.partition("@media")
    block = style[0 if mode == "light" else 2]
    colors = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    one, other = sorted((luminance(colors[front]), luminance(colors[back])), reverse=True)
    assert (one + 0.05) / (other + 0.05) >= least
