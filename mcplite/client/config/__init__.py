"""Configuration files that list servers: reading, comments and placeholders."""

from .files import Config, ServerConfig, entry, load_config

__all__ = ["Config", "ServerConfig", "entry", "load_config"]
