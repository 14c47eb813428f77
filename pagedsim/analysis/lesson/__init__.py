"""The numbers of the lesson: what a first course about the KV cache shows and lets one move."""
