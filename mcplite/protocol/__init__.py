"""Sans I/O: bytes and dicts in, values out; no threads, no sockets, and no clock but as an argument."""
