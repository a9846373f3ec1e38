"""The calls that a user makes on a client, and what they remember between calls."""
