"""Scenes: a pool step by step over a stretch of time, for the memory map."""
