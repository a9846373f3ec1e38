import textwrap

import pytest

from mcplite.client.stdio.scripts import starts_server

GUARD = "if __name__ == '__main__':\n    "


@pytest.mark.parametrize("text", [
    "mcp.run()\n",
    GUARD + "mcp.run()\n",
    GUARD + "mcp.run('stdio')\n",
    "def main():\n    mcp.run(transport='stdio')\n\n" + GUARD + "main()\n",
    "import sys\ndef main():\n    return app.run()\n" + GUARD + "sys.exit(main())\n",
    """
    async def main():
        async with stdio_server() as streams:
            await server.run(*streams)
    asyncio.run(main())
    """,
    "async def main():\n    await mcp.run_stdio_async()\n" + GUARD + "anyio.run(main)\n",
    "from mcp_server_git import main\n" + GUARD + "main()\n",
    "from zeromcp import run_stdio\nrun_stdio(server)\n",
    "import sys\nfor line in sys.stdin:\n    print(line)\n",
    "try:\n    with lock:\n        mcp.serve()\nfinally:\n    lock.close()\n",
    "def first():\n    second()\ndef second():\n    mcp.run()\nfirst()\n",
    "this is no Python\n",
    "\0",
    "(" * 1000,
])
def test_a_file_that_starts_a_server(text):
    for source in read_alike(textwrap.dedent(text)):
        assert starts_server(source)


def read_alike(text):
    """The same file as different editors write it."""
    yield text.encode()
    yield b"\xef\xbb\xbf" + text.encode()
    yield b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    yield b"# -*- coding: latin-1 -*- \xe9\n" + text.encode()


@pytest.mark.parametrize("text", [
    "",
    "import mcplite\nmcp = mcplite.Server('x')\n",
    "def double(n: int) -> int:\n    return 2 * n\n\n" + GUARD + "print(double(21))\n",
    GUARD + "pass\n",
    GUARD + "unittest.main()\n",
    "import subprocess\nVERSION = subprocess.run(['git', 'describe'])\n",
    "def build(name: str) -> str:\n    return subprocess.run([name])\n",
    "def query(sql: str) -> list:\n    return db.run(sql)\n",
    "def start():\n    mcp.run()\n",
    "class Tool:\n    def go(self):\n        self.run()\n",
    "# if __name__ == '__main__': mcp.run()\n'mcp.run()'\n",
    "def loop():\n    loop()\nloop()\n",
    "async def main():\n    print('hi')\n" + GUARD + "asyncio.run(main())\n",
])
def test_a_file_that_starts_none(text):
    for source in read_alike(textwrap.dedent(text)):
        assert not starts_server(source)
