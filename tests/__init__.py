"""The tests of mcplite."""
