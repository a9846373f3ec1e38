"""Types of pydantic, attrs, msgspec, numpy and pandas, recognized without importing any of these libraries."""
