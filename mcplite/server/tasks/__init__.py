"""Tasks: calls of tools that go on when their client has left; what is known of them lies in the backend."""
