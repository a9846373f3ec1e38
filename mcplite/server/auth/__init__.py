"""Who is calling: principals, and the verifiers of bearer tokens."""
