"""The public door to Gymnasium: importing it registers `surefoot/WalkFlat-v0` and the others."""

from surefoot.env.gymnasium import ENVIRONMENTS, SurefootEnv, SurefootVectorEnv, register_envs

__all__ = ["ENVIRONMENTS", "SurefootEnv", "SurefootVectorEnv", "register_envs"]
