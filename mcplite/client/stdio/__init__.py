"""A server as a child process: starting it, its pipes, its stderr, ending it."""
