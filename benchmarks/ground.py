"""How a sphere's contacts lean on level ground that is a heightfield, by all in MuJoCo that might help.

    python benchmarks/ground.py            # a minute; writes benchmarks/ground.json

Spheres of a Go1's foot, sunk in by up to 3 mm anywhere on level ground. On a plane each has one contact,
straight up, as deep as the sphere is sunk in.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from surefoot.engines.surface import make_surface

RADIUS_M = 0.023
SCENE = """
<mujoco>
  <asset><hfield name="field" nrow="{samples}" ncol="{samples}" size="5 5 0.001 {base_m}"/></asset>
  <worldbody>
    <geom {ground} contype="0" conaffinity="1" margin="{margin_m}"/>
    <body><freejoint/><geom type="sphere" size="{radius}" contype="1" conaffinity="0"/></body>
  </worldbody>
</mujoco>"""


@dataclass(frozen=True)
class Ground:
    kind: str = "prisms"  # or plane, surface
    base_m: float = 1.0
    samples: int = 101
    margin_m: float = 0.0
    disabled: int = 0
    tolerance: float = 1e-6
    iterations: int = 35
    depth_m: tuple[float, float] = (1e-5, 3e-3)

    def model(self) -> mujoco.MjModel:
        ground = 'type="plane" size="0 0 1"' if self.kind == "plane" else 'type="hfield" hfield="field"'
        text = SCENE.format(
            ground=ground, samples=self.samples, base_m=self.base_m, margin_m=self.margin_m, radius=RADIUS_M
        )
        model = mujoco.MjModel.from_xml_string(text)
        model.opt.disableflags |= self.disabled
        model.opt.ccd_tolerance, model.opt.ccd_iterations = self.tolerance, self.iterations
        if self.kind == "surface":
            make_surface(model)
        return model


DISABLE = mujoco.mjtDisableBit
GROUNDS = {
    "plane": Ground("plane"),
    "surface": Ground("surface"),
    "surface, cells of 2 cm": Ground("surface", samples=501),
    "prisms (MuJoCo's own)": Ground(),
    "prisms, libccd instead of native CCD": Ground(disabled=int(DISABLE.mjDSBL_NATIVECCD)),
    "prisms, no multiccd": Ground(disabled=int(DISABLE.mjDSBL_MULTICCD)),
    "prisms, tolerance 1e-10, 500 iterations": Ground(tolerance=1e-10, iterations=500),
    "prisms, margin 1 cm": Ground(margin_m=0.01),
    "prisms, base 1 cm": Ground(base_m=0.01),
    "prisms, base 10 m": Ground(base_m=10.0),
    "prisms, cells of 2 cm": Ground(samples=501),
    "prisms, cells of 1 m": Ground(samples=11),
    "prisms, sunk in by up to 1 mm": Ground(depth_m=(1e-5, 1e-3)),
}


def measure(ground: Ground, spheres: int) -> dict[str, float]:
    model = ground.model()
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    leans, wrong, count = [], [], 0
    for _ in range(spheres):
        depth = rng.uniform(*ground.depth_m)
        data.qpos[:3] = *rng.uniform(-2, 2, 2), RADIUS_M - depth
        mujoco.mj_fwdPosition(model, data)
        count += data.ncon
        leans += [np.degrees(np.arccos(np.clip(c.frame[2], -1, 1))) for c in data.contact]
        wrong += [abs(c.dist + depth) for c in data.contact]
    return {
        "contacts_per_sphere": count / spheres,
        "share_leaning_over_5_degrees": float(np.mean(np.array(leans) > 5)),
        "largest_lean_degrees": float(np.max(leans)),
        "largest_error_of_depth_m": float(np.max(wrong)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spheres", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    grounds = {name: measure(ground, args.spheres) for name, ground in GROUNDS.items()}
    record = {"schema_version": 1, "mujoco": mujoco.__version__, "spheres": args.spheres, "grounds": grounds}
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
