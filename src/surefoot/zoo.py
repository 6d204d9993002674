"""The public door to PettingZoo."""

from surefoot.env.pettingzoo import SurefootParallelEnv

__all__ = ["SurefootParallelEnv"]
