"""HTTP to the outside: the one place that uses ``requests``, shared by client and server."""
