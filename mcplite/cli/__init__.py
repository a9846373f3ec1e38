"""The command line of the client's side, in parts: what is typed, asked, printed, and logged in to."""
