"""A server behind a proxy, which notes what reaches it; for ``test_fronts.py``.

    python behind_front.py PORT                  our own HTTP server
    gunicorn behind_front:application            as a WSGI application

The folder BEHIND_FRONT gets two files: ``seen``, with the proxy's mark of each request that arrives, and ``effects``.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import mcplite  # noqa: E402
from tests.support.tight import tight

folder = Path(os.environ["BEHIND_FRONT"])
mcp = mcplite.Server("behind", limits=tight(body_seconds=2, header_seconds=2, idle_seconds=60))


def note(name, text):
    """Add a line to a file, whole."""
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, text.encode("utf-8", "replace") + b"\n")
    finally:
        os.close(descriptor)


@mcp.tool(structured_output=False)
def act(key: str) -> str:
    """Have an effect, and return the key backwards."""
    note("effects", key)
    return key[::-1]


def _wsgi():
    inner = mcp.wsgi(path="/mcp", stateless=True, allowed_hosts=["*"])

    def application(environ, start_response):
        note("seen", environ.get("HTTP_X_FRONT", "-"))
        return inner(environ, start_response)

    return application


def main(port):
    with mcplite.serve(mcp, port=int(port), stateless=True, allowed_hosts=["*"]) as server:
        answer = server.answer

        def answer_and_note(request):
            note("seen", request.headers.get("x-front") or "-")
            return answer(request)

        server.answer = answer_and_note
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
else:
    application = _wsgi()
