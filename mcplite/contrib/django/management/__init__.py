"""What Django looks for in an application."""
