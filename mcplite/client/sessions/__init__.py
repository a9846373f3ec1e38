"""Sessions with a server: legacy with a handshake, modern without; how the era is negotiated and a session opened."""
