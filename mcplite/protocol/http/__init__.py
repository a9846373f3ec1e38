"""HTTP without a socket: headers, request heads, server-sent events, challenges and well-known URLs."""
