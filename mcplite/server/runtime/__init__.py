"""What lives as long as the server: threads, lifespan, waiting calls, states, subscriptions."""
