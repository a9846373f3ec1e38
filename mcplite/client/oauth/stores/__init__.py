"""Where tokens and registrations are kept: memory, a file, the keyring of the system."""
