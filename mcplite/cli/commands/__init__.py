"""The commands that use a server, each with a connected client: its tools, resources and prompts, its changes, its tasks."""
