"""HTTP without a socket: headers, requests, server-sent events, challenges and well-known URLs."""
