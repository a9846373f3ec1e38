"""The two eras of a client: legacy with a handshake, modern without, and how the era is negotiated."""
