"""How a login reaches the user: a browser with a loopback page, or a terminal."""
