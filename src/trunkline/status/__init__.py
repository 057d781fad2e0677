"""What an operator sees: facts read through the schema's own functions, and what they mean."""
