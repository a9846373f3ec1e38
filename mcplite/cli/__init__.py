"""The client's command line: its parser, the commands, questions to the user, and logins."""
