"""OAuth on the client: discovery of the authorization server, logins, and the tokens that come of them."""
