"""A server that issues its own tokens: the authorization server beside the endpoint, its users, pages and storage."""
