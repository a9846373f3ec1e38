"""Servers that offer other servers: mounted ones of this process, clients of others, and bridges between transports."""
