"""Tasks: calls of tools that go on when their client has left, in both generations of the protocol and on both sides."""
