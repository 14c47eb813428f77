"""pagedsim: how a language-model server's KV cache is allocated, simulated exactly."""

__version__ = "0.1.0"
