"""Versions of simulators: what tells two of the same name apart."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version

from surefoot.contract import BOX_WORLD, behaviour_digest, package_digest

_PACKAGES = {"mujoco-warp": "mujoco-warp"}


def minor_version(package: str) -> str:
    """Returns a package's version without its last part; "" where it is not installed."""
    try:
        return ".".join(version(package).split(".")[:2])
    except PackageNotFoundError:
        return ""


@cache
def engine_version(name: str, heightfield: bool) -> str:
    """Returns what tells versions of an engine apart besides MuJoCo's: the digest of source that is our own.
    Stride's stands for its version; native MuJoCo has none on a plane, and on a heightfield that of the
    contact with its surface, which is not MuJoCo's; the box world that of its shapes."""
    if name == "stride":
        return package_digest("surefoot.engines.stride", "surefoot.compiler")
    if name == "mujoco":
        contact = ("surefoot.engines.surface", "surefoot.engines.surface_kernel")
        return package_digest(*contact) if heightfield else ""
    if name == BOX_WORLD:
        return package_digest("surefoot.engines.mujoco_boxes", "surefoot.terrain.solids")
    if name in _PACKAGES:
        return minor_version(_PACKAGES[name])
    for point in entry_points(group="surefoot.engines", name=name):
        return behaviour_digest({name: point.load()})
    return ""
