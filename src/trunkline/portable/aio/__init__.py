"""Topics and subscriptions of any broker, for asyncio."""
