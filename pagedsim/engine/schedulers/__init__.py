"""Schedulers: who runs, with how many tokens, who joins and who makes room."""

from pagedsim.engine.schedulers.orca import Orca
from pagedsim.engine.schedulers.static import Static
from pagedsim.engine.schedulers.vllm import Vllm

__all__ = ["Orca", "Static", "Vllm"]
