"""Tasks on the client: the handle of a task that goes on at the server, and how its status is followed."""
