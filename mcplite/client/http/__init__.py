"""Streamable HTTP and HTTP+SSE as a client speaks them."""
