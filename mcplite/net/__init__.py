"""HTTP to the outside: our own connections, and the one place that uses ``requests``; shared by client and server."""
