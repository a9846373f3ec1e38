"""JSON Schema: validation within a budget of work, with a fast path for common schemas."""
