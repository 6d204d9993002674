"""The two kernels of a robot: a control step, and a reset.

A control step loads an environment, runs the physics step `decimation` times, checks what came out and stores
it. An environment whose numbers or targets are not finite, or which moves too fast, keeps the state it had,
is flagged, and rests until it is reset. With `look` the kernel solves one physics step without taking it and
writes what there is to see: environments that were just reset get their outputs, and their warm start, so.
"""

from __future__ import annotations

import pickle
from functools import lru_cache

import numpy as np

from surefoot.compiler import Target, declarations, literal, prelude, statements, vectors
from surefoot.engines.stride.buffers import Buffers
from surefoot.engines.stride.dynamics import rotation_of
from surefoot.engines.stride.heightfield import GROUND
from surefoot.engines.stride.layout import Layout
from surefoot.engines.stride.spatial import Vec3
from surefoot.engines.stride.step import CHAIN_STATE, PARAMETERS, STATE, build_integration, build_step
from surefoot.terrain import RESOLUTION_M

MAX_SPEED = 100.0
"""m/s or rad/s: no legged robot moves a base or a joint this fast, an exploding simulation does."""
MAX_TARGET = 1e10
"""The largest joint target, rad: mjMAXVAL."""
MAX_ACCELERATION = 1e10
MAX_POSITION = 1e6
HEAD, DELAY, TILE = 0, 1, 2
FAILED, TRUNK_CONTACT = 0, 1


def _numbered(sizes: dict[str, int]) -> list[tuple[str, int, str]]:
    """(group, index in it, variable): single variables have no number in their name."""
    return [
        (name, i, name if size == 1 else f"{name}{i}") for name, size in sizes.items() for i in range(size)
    ]


def control_step_source(
    layout: Layout,
    buffers: Buffers,
    policy: np.ndarray,
    target: Target,
    *,
    decimation: int,
    history: int,
) -> str:
    """Returns C++ of a control step. `policy` [depth, K] is each joint's place in the policy's order, or
    -1. What is equal is written once: training, selection and confirmation make an engine each."""
    return _control_step_source(pickle.dumps((layout, buffers, policy, target, decimation, history)))


@lru_cache(maxsize=16)
def _control_step_source(inputs: bytes) -> str:
    layout, buffers, policy, target, decimation, history = pickle.loads(inputs)
    p = build_step(layout)
    look = statements(p.body)
    integrate = statements(build_integration(p))
    R = rotation_of(p.env("quat", 4))
    seen = vectors("ylin", R.T @ Vec3(*p.env("vel", 3))) | vectors("ygrav", -R[2])
    n_before = len(p.body)
    p.let("env", seen)
    epilogue = statements(p.body[n_before:])
    D, NK = layout.depth, layout.chains
    st, pr = buffers.state, buffers.parameters
    lines = [prelude(target, NK)]
    lines += [
        f"enum {{ DEPTH = {D}, DECIMATION = {decimation}, HISTORY = {history}, JOINTS = {buffers.joints} }};",
        "float *const x = X.data, *const par = P.data, *const y = Y.data, *const h = H.data;",
        "const int npad = X.shape[1];",
        _table("POLICY", policy),
    ]
    lines += declarations(p)
    lines += [
        _table("BODY", _bodies(layout)),
        f"#define SLOT_WEIGHT(s) LOAD(par, {pr.first('body_weight')} + BODY[s][C])",
    ]
    if layout.heightfield:
        widest = max((point.radius for point in layout.description.points), default=0.0)
        lines += [f"#define LARGE_SPHERES {int(widest > 0.5 * RESOLUTION_M)}", GROUND]
    # ---- who takes part
    lines += [
        "real act = K(1.0f), dead = K(0.0f);",
        "for (int l = 0; l < W; ++l) {"
        " AT(act, l) = look && !mask.data[e0 + l] ? 0.0f : 1.0f;"
        f" AT(dead, l) = flags.data[{FAILED} * npad + e0 + l] ? 1.0f : 0.0f; }}",
        "if (!ANY(act > 0.5f)) return;",
        "awake = ((act > 0.5f) & (dead < 0.5f)) ? K(1.0f) : K(0.0f);",
    ]
    # ---- load
    lines += [f"{v} = LOAD(x, {st.first(g) + i});" for g, i, v in _numbered(STATE)]
    lines += [f"{v} = LOAD(par, {pr.first(g) + i});" for g, i, v in _numbered(PARAMETERS)]
    known = p.variables
    load = [
        f"{name}{i}[c] = LOAD(x, {st.first(name)} + {i} * NK + C);" for name in CHAIN_STATE for i in range(D)
    ]
    load += [
        f"dofw{i}[c] = LOAD(par, {pr.first('dof_weight')} + {i} * NK + C);"
        for i in range(D)
        if f"dofw{i}" in known
    ]
    for spot in layout.spots:
        if spot.hot:
            body = f"FOOT_BODY{spot.number}"
            lines.append(_table(body, np.array(spot.bodies)))
            load.append(f"iw_{spot.number}[c] = LOAD(par, {pr.first('body_weight')} + {body}[0][C]);")
    lines += ["FOR_CHAIN {", *load, "}"]
    lines += _targets()
    # ---- physics
    choose = [f"target{i}[c] = chosen > K(0.5f) ? earlier[c][{i}] : later[c][{i}];" for i in range(D)]
    lines += [
        "for (int sub = 0; sub < (look ? 1 : DECIMATION); ++sub) {",
        "const real chosen = K((float)sub) < change ? K(1.0f) : K(0.0f);",
        "FOR_CHAIN {",
        *choose,
        "}",
        *look,
        "if (!look) {",
        *integrate,
        "}",
        "}",
        *epilogue,
    ]
    lines += _store(layout, buffers, D)
    return "\n".join(lines)


def _table(name: str, values: np.ndarray) -> str:
    rows = ", ".join("{" + ", ".join(str(int(v)) for v in row) + "}" for row in values)
    return f"static const int {name}[{values.shape[0]}][{values.shape[1]}] = {{{rows}}};"


def _bodies(layout: Layout) -> np.ndarray:
    out = np.zeros((max(layout.slot_count, 1), layout.chains), int)
    for spot in layout.spots:
        if spot.group is not None:
            out[spot.group.start : spot.group.stop] = spot.bodies
    return out


def _targets() -> list[str]:
    """The target in force at physics step k was issued ceil((delay - k) / decimation) control steps ago.

    That takes at most two values in a control step: `earlier` before physics step `change`, then `later`.
    """
    return [
        "real earlier[NC][DEPTH] = {}, later[NC][DEPTH] = {}, issued[NC][DEPTH] = {};",
        "real wrong[NC] = {}, change = {};",
        "for (int l = 0; l < W; ++l) {",
        "const int e = e0 + l;",
        f"const int delay = ints.data[{DELAY} * npad + e], head = ints.data[{HEAD} * npad + e];",
        "const int age = (delay + DECIMATION - 1) / DECIMATION, younger = age > 0 ? age - 1 : 0;",
        "AT(change, l) = age > 0 ? (float)(delay - (age - 1) * DECIMATION) : 0.0f;",
        "const int next = look ? head : (head + 1) % HISTORY;",
        "const int row0 = (next - age + HISTORY) % HISTORY, row1 = (next - younger + HISTORY) % HISTORY;",
        "FOR_CHAIN for (int i = 0; i < DEPTH; ++i) {",
        "const int j = POLICY[i][C];",
        "float now = 0.0f;",
        "if (j >= 0 && !look) now = targets.data[(long long)e * JOINTS + j];",
        f"if (!(now < {literal(MAX_TARGET)} && now > -{literal(MAX_TARGET)}))"
        " { AT(wrong[c], l) = 1.0f; now = 0.0f; }",
        "AT(issued[c][i], l) = now;",
        "const float a = h[((long long)(row0 * DEPTH + i) * NK + C) * npad + e];",
        "const float b = h[((long long)(row1 * DEPTH + i) * NK + C) * npad + e];",
        "AT(earlier[c][i], l) = age == 0 && !look ? now : a;",
        "AT(later[c][i], l) = younger == 0 && !look ? now : b;",
        "} }",
    ]


def _store(layout: Layout, buffers: Buffers, D: int) -> list[str]:
    st, out = buffers.state, buffers.outputs
    speed, far, fast = literal(MAX_SPEED), literal(MAX_POSITION), literal(MAX_ACCELERATION)
    bounds = {
        "pos": far,
        "quat": "2.0f",
        "vel": speed,
        "ang": speed,
        "acc": fast,
        "q": far,
        "qd": speed,
        "qa": fast,
    }
    env = [f"ok = ok & (ABS({v}) < {bounds[g]});" for g, _, v in _numbered(STATE)]
    chain = [f"fine = fine & (ABS({name}{i}[c]) < {bounds[name]});" for name in CHAIN_STATE for i in range(D)]
    lines = [
        "FOR_CHAIN { maskt fine = wrong[c] < 0.5f;",
        *chain,
        "wrong[c] = fine ? K(0.0f) : K(1.0f); }",
        "const real wrongs = SUM(wrong);",
        "maskt ok = wrongs < 0.5f;",
        *env,
        "const maskt keep = (awake > 0.5f) & ok;",
        "#define PUT(a, row, v) { const real new_ = (v); STORE(a, row, (keep ? new_ : LOAD(a, row))); }",
        "if (FIRST_LANE) {",
        "if (!look) {",
        *(f"PUT(x, {st.first(g) + i}, {v});" for g, i, v in _numbered(STATE)),
        "} else {",
        *(f"PUT(x, {st.first('acc') + i}, acc{i});" for i in range(6)),
        "}",
    ]
    origin = buffers.parameters.first("origin")
    lines += [
        f"PUT(y, {out.first('position')}, pos0 + LOAD(par, {origin}));",
        f"PUT(y, {out.first('position') + 1}, pos1 + LOAD(par, {origin + 1}));",
        f"PUT(y, {out.first('position') + 2}, pos2);",
        *(f"PUT(y, {out.first('quaternion') + i}, quat{i});" for i in range(4)),
        *(f"PUT(y, {out.first('linear_velocity') + i}, ylin{i});" for i in range(3)),
        *(f"PUT(y, {out.first('angular_velocity') + i}, ang{i});" for i in range(3)),
        *(f"PUT(y, {out.first('gravity') + i}, ygrav{i});" for i in range(3)),
        "for (int l = 0; l < W; ++l) {",
        "const bool was = AT(dead, l) > 0.5f, fine = AT(keep, l) != 0, in = AT(act, l) > 0.5f;",
        f"if (in) flags.data[{FAILED} * npad + e0 + l] = was || !fine;",
        f"if (fine) flags.data[{TRUNK_CONTACT} * npad + e0 + l] = AT(touches_sum, l) > 0.0f;",
        "} }",
        "FOR_CHAIN if (OWN_CHAIN) {",
        "if (!look) {",
        *(
            f"PUT(x, {st.first(name)} + {i} * NK + C, {name}{i}[c]);"
            for name in CHAIN_STATE
            for i in range(D)
        ),
        "for (int l = 0; l < W; ++l) if (AT(keep, l) != 0) for (int i = 0; i < DEPTH; ++i) {"
        f" const int next = (ints.data[{HEAD} * npad + e0 + l] + 1) % HISTORY;"
        " h[((long long)(next * DEPTH + i) * NK + C) * npad + e0 + l] = AT(issued[c][i], l); }",
        "} else {",
        *(f"PUT(x, {st.first('qa')} + {i} * NK + C, qa{i}[c]);" for i in range(D)),
        "}",
    ]
    for i in range(D):
        jp, jv, jt = (out.first(n) for n in ("joint_position", "joint_velocity", "torque"))
        lines += [
            f"if (POLICY[{i}][C] >= 0) {{ const int j = POLICY[{i}][C];",
            f"PUT(y, {jp} + j, q{i}[c]); PUT(y, {jv} + j, qd{i}[c]);",
            f"PUT(y, {jt} + j, (look ? K(0.0f) : motor{i}[c])); }}",
        ]
    for f, row in enumerate(layout.feet):
        fp, fv, ff = (out.first(n) for n in ("foot_position", "foot_velocity", "foot_force"))
        lines += [
            f"{{ static const int FOOT[] = {{{', '.join(map(str, row))}}};",
            "const int j = 3 * FOOT[C]; if (j >= 0) {",
            f"PUT(y, {fp} + j, fpos{f}_0[c] + LOAD(par, {origin}));",
            f"PUT(y, {fp} + j + 1, fpos{f}_1[c] + LOAD(par, {origin + 1}));",
            f"PUT(y, {fp} + j + 2, fpos{f}_2[c]);",
            *(f"PUT(y, {fv} + j + {k}, fvel{f}_{k}[c]);" for k in range(3)),
            *(f"PUT(y, {ff} + j + {k}, fforce{f}_{k}[c]);" for k in range(3)),
            "} }",
        ]
    lines += [
        "}",
        "SYNC_LANES",
        "if (FIRST_LANE && !look) for (int l = 0; l < W; ++l) if (AT(keep, l) != 0) {"
        f" int& head = ints.data[{HEAD} * npad + e0 + l]; head = (head + 1) % HISTORY; }}",
    ]
    return lines
