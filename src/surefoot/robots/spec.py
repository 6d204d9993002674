"""Says what the rest of Surefoot knows of a robot: its MJCF, the order of its joints and feet, its gains."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from pydantic import BaseModel, ConfigDict, model_validator

from surefoot.contract import SurefootError, digest
from surefoot.robots import kinematics
from surefoot.robots.kinematics import one_line
from surefoot.robots.mirror import infer_mirror
from surefoot.robots.mjcf import MjcfOptions, RobotDescription, check_keywords, read_mjcf

if TYPE_CHECKING:
    import mujoco


class RobotSpec(BaseModel):
    """A legged robot alone: no floor, no actuators. An engine adds those from the figures here.

    Collision, by convention: every robot geom that collides has contype=1 conaffinity=0, so the robot touches
    only a floor with contype=0 conaffinity=1 (the engine's) and never itself. Contact friction belongs to the
    engine: it must set the friction of foot and floor, or give the floor geom the higher priority, because
    MuJoCo takes the larger friction of the two.

    Tuples per joint follow `joints`: leg by leg, each from the trunk outwards; built-in robots have their
    legs from front to back, right before left. The trunk's x axis points forward, y left, z up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    mjcf: str
    """Full MJCF of the robot; its worldbody holds the trunk and nothing else. Angles in radians."""
    assets_dir: str | None = None
    """Folder the MJCF's file names are relative to. Not part of the digest; the files' contents are."""
    assets: tuple[tuple[str, str], ...] = ()
    """(file name, SHA-256) of every mesh and texture the MJCF names."""
    trunk: str
    joints: tuple[str, ...]
    feet: tuple[str, ...]
    """Foot geoms (not sites, not bodies), one per leg, in the order of the legs. A foot that touches the
    ground at several points (a box) is one foot: its force is their sum."""
    default_pose: tuple[float, ...]
    kp: tuple[float, ...]
    """Position gains of the joints' servos, N m/rad."""
    kd: tuple[float, ...]
    """Velocity gains, N m s/rad, on top of any joint damping in the MJCF."""
    torque_limit_nm: tuple[float, ...]
    joint_low: tuple[float, ...]
    joint_high: tuple[float, ...]
    stand_height_m: float
    """Height of the trunk body's origin above flat ground, default pose, level, lowest foot just touching.
    Under PD control the robot sags a little below it."""
    mass_kg: float
    joint_mirror: tuple[int, ...] | None
    """Left-right mirror of a pose q: `sign[i] * q[joint_mirror[i]]`. None: no mirror known."""
    joint_mirror_sign: tuple[float, ...] | None
    foot_mirror: tuple[int, ...] | None
    sources: str
    """Where the figures come from. Prose, not part of the digest."""

    @classmethod
    def describe(cls, **given: Unpack[RobotDescription]) -> Self:
        """Makes a spec with everything that follows from the MJCF filled in: limits, mass, height, mirror.

        Figures that come out of MuJoCo's arithmetic are rounded (1e-6 m, kg and rad), so that the digest does
        not depend on the last bit of a platform's floating point.
        """
        check_keywords("RobotSpec.describe", RobotDescription, given)
        name, assets_dir, assets = given["name"], given.get("assets_dir"), tuple(given.get("assets", ()))
        trunk, joints, feet, pose = given["trunk"], given["joints"], given["feet"], given["default_pose"]
        model = _compile(_parse(given["mjcf"], assets_dir, assets, name), name)
        kinematics.check_names(model, trunk, joints, feet)
        _need_one_per_joint("default_pose", pose, joints)
        _need_one_per_joint("kp", given["kp"], joints)
        _need_one_per_joint("kd", given["kd"], joints)
        _need_one_per_joint("torque_limit_nm", given["torque_limit_nm"], joints)
        low, high = kinematics.joint_range(model, joints)
        mirror = infer_mirror(model, trunk, joints, feet, pose)
        return cls(
            name=name,
            mjcf=given["mjcf"],
            assets_dir=assets_dir,
            assets=assets,
            trunk=trunk,
            joints=tuple(joints),
            feet=tuple(feet),
            default_pose=tuple(map(float, pose)),
            kp=tuple(map(float, given["kp"])),
            kd=tuple(map(float, given["kd"])),
            torque_limit_nm=tuple(map(float, given["torque_limit_nm"])),
            joint_low=tuple(round(x, 6) for x in low),
            joint_high=tuple(round(x, 6) for x in high),
            stand_height_m=round(kinematics.stand_height(model, trunk, joints, feet, pose), 6),
            mass_kg=round(float(model.body_mass.sum()), 6),
            joint_mirror=mirror.joints if mirror else None,
            joint_mirror_sign=mirror.signs if mirror else None,
            foot_mirror=mirror.feet if mirror else None,
            sources=given["sources"],
        )

    @classmethod
    def from_mjcf(cls, path: str | Path, **given: Unpack[MjcfOptions]) -> Self:
        """Makes the spec of a user's own legged robot. `surefoot.robots.mjcf` says what of the file is
        stripped and what is kept.

        `feet`, `default_pose`, `kp` and `kd` must be given. `trunk` defaults to the one body with a free
        joint, `joints` to all hinges below it in depth-first order, `torque_limit_nm` to the limits of the
        file's joints and actuators, `name` to the file's. `feet` must be in the legs' order in `joints`.
        """
        check_keywords("RobotSpec.from_mjcf", MjcfOptions, given)
        return cls.describe(**read_mjcf(Path(path), given))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for title in ("default_pose", "kp", "kd", "torque_limit_nm", "joint_low", "joint_high"):
            _need_one_per_joint(title, getattr(self, title), self.joints)
        for joint, low, angle, high in zip(
            self.joints, self.joint_low, self.default_pose, self.joint_high, strict=True
        ):
            if not low <= angle <= high:
                raise SurefootError(
                    f"The default pose puts joint '{joint}' at {angle:g} rad, outside its range "
                    f"{low:g} to {high:g}; choose an angle inside it."
                )
        for title in ("kp", "kd", "torque_limit_nm"):
            for joint, value in zip(self.joints, getattr(self, title), strict=True):
                if not (0.0 < value < math.inf or (title == "kd" and value == 0.0)):
                    raise SurefootError(
                        f"{title} of joint '{joint}' is {value:g}; give a finite value above zero."
                    )
        return self

    @property
    def digest(self) -> str:
        """Returns the SHA-256 over every figure. Where the meshes lie, and `sources`, do not count.

        The MJCF counts as text: a MuJoCo that writes XML differently may give a user's file another digest.
        """
        return digest(self.model_dump(mode="json", exclude={"assets_dir", "sources"}))

    def mjspec(self) -> mujoco.MjSpec:
        """Returns a fresh editable model of the robot alone, to which an engine adds floor and actuators."""
        return _parse(self.mjcf, self.assets_dir, self.assets, self.name)

    def compile(self) -> mujoco.MjModel:
        """Returns the robot alone, for checks."""
        return _compile(self.mjspec(), self.name)


def _parse(mjcf: str, assets_dir: str | None, assets: Sequence[tuple[str, str]], name: str) -> mujoco.MjSpec:
    import mujoco

    files = {file: _asset(Path(assets_dir or "."), file, expected, name) for file, expected in assets}
    try:
        return mujoco.MjSpec.from_string(mjcf, assets=files)
    except ValueError as error:
        raise SurefootError(
            f"The MJCF of robot '{name}' cannot be read; fix this in it: {one_line(error)}"
        ) from error


def _asset(folder: Path, file: str, expected: str, name: str) -> bytes:
    """Reads a mesh or texture; refused where it is not the one that the robot was described with."""
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise SurefootError(
            f"Robot '{name}' needs the file '{folder / file}', which cannot be read ({error.strerror}); "
            "put it back or describe the robot again."
        ) from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise SurefootError(
            f"The file '{folder / file}' is not the one robot '{name}' was described with; "
            "restore it or describe the robot again."
        )
    return content


def _compile(spec: mujoco.MjSpec, name: str) -> mujoco.MjModel:
    try:
        return spec.compile()
    except ValueError as error:
        raise SurefootError(
            f"The MJCF of robot '{name}' does not compile; fix this in it: {one_line(error)}"
        ) from error


def _need_one_per_joint(title: str, values: Sequence[float], joints: Sequence[str]) -> None:
    if len(values) != len(joints):
        raise SurefootError(
            f"{title} has {len(values)} values for {len(joints)} joints; give one per joint, in this order: "
            + ", ".join(joints)
            + "."
        )
