"""What a server offers: registered tools, resources and prompts, capabilities and cache hints."""
