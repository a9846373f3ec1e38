"""Stores of tokens and registrations: memory, a file, the keyring of the system."""
