"""Shared parts of the tests: fake peers, scripted servers and children, the judge of what goes over the wire."""
