"""The two eras of a server: legacy sessions with a handshake, modern requests without."""
