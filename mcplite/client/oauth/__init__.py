"""A user's tokens: how a client finds out whom to ask, asks the user to log in, and keeps what it gets."""
