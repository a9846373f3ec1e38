"""Authentication: principals, and the verifiers of bearer tokens."""
