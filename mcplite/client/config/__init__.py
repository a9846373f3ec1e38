"""Configuration files that list servers: reading, comments and placeholders."""
