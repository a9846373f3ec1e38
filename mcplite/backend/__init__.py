"""What the processes of one server share: values and logs, in memory, SQLite, Redis or PostgreSQL."""
