"""What a server keeps between the requests of a client, over a backend: sessions, and the logs of their streams."""
