"""What connects mcplite with other libraries; each module is imported by those who use that library."""
