"""The research agent: prompts become programs; islands keep them; supporters advise."""
