"""The second floor as a server over HTTP: that of ``floor_web.py``, with JSON's coders made once."""

import sys

import floor_web
from floor2_server import decode, encode

if __name__ == "__main__":
    floor_web.encode, floor_web.decode = encode, decode
    floor_web.main(*sys.argv[1:])
