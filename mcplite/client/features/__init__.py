"""The calls of a client: the methods of the protocol, pages, the cache, output schemas, completion."""
