"""What both sides of stdio are built on: pipes that carry messages, and whether a stream is a terminal instead."""
