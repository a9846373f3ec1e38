"""The protocol without I/O: bytes and dicts in, values out; no threads, no sockets, and a clock only as an argument."""
