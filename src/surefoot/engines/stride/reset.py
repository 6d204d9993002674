"""The reset kernel: one thread per environment in the mask writes its state, parameters and targets.

The solver's inverse weights follow from the trunk's mass and centre of mass as in `description.Weights`: a
6x6 inverse in double precision per environment. No parameter is approximated and nothing leaves the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.engines.stride.buffers import Buffers
from surefoot.engines.stride.kernel import DELAY, FAILED, HEAD, TILE, TRUNK_CONTACT
from surefoot.engines.stride.layout import Layout
from surefoot.engines.stride.step import STATE


def _doubles(name: str, values: Any) -> str:
    flat = np.asarray(values, np.float64).reshape(-1)
    text = ", ".join(repr(float(v)) for v in flat) or "0.0"
    return f"static const double {name}[{max(len(flat), 1)}] = {{{text}}};"


def _integers(name: str, values: Any) -> str:
    flat = np.asarray(values, np.int64).reshape(-1)
    return f"static const int {name}[{max(len(flat), 1)}] = {{{', '.join(str(v) for v in flat) or '0'}}};"


def reset_source(
    layout: Layout,
    buffers: Buffers,
    policy: np.ndarray,
    pose: np.ndarray,
    *,
    decimation: int,
    history: int,
) -> str:
    """C++ of a reset. `policy` [depth, K] is each joint's place in the policy's order, or -1."""
    d, D, K = layout.description, layout.depth, layout.chains
    st, pr, sg = buffers.state, buffers.parameters, buffers.staging
    index = {link.name: i for i, link in enumerate(link for chain in d.chains for link in chain)}
    dof = [[index[x.name] if x.dof >= 0 else -1 for x in row] for row in layout.links]
    zero = [[x.zero for x in row] for row in layout.links]
    bodies = len(d.weights.body_constant)
    tables = [
        _doubles("LEGS", d.weights.legs),
        _doubles("BODY_FORM", d.weights.body_form),
        _doubles("BODY_CONSTANT", d.weights.body_constant),
        _doubles("DOF_FORM", d.weights.dof_form),
        _doubles("DOF_CONSTANT", d.weights.dof_constant),
        _doubles("INERTIA", d.trunk_inertia),
        _doubles("FIXED", d.fixed),
        _doubles("COM", d.trunk_com),
        _doubles("POSE", pose),
        _doubles("ZERO", zero),
        _integers("POLICY", policy),
        _integers("DOF", dof),
    ]
    return (
        "\n".join(tables)
        + f"""
if (!mask.data[e]) return;
const long long npad = X.shape[1];
const float* in = staging.data + (long long)e * {sg.count};
#define PX(row) X.data[(long long)(row) * npad + e]
#define PP(row) P.data[(long long)(row) * npad + e]
// ---- state
const int tile = (int)in[{sg.first("tile")}];
const float ox = origins.data[2 * tile], oy = origins.data[2 * tile + 1];
PX({st.first("pos")}) = in[{sg.first("position")}] - ox;
PX({st.first("pos") + 1}) = in[{sg.first("position") + 1}] - oy;
PX({st.first("pos") + 2}) = in[{sg.first("position") + 2}];
for (int i = 0; i < 4; ++i) PX({st.first("quat")} + i) = in[{sg.first("quaternion")} + i];
for (int i = 0; i < 3; ++i) PX({st.first("vel")} + i) = in[{sg.first("linear_velocity")} + i];
for (int i = 0; i < 3; ++i) PX({st.first("ang")} + i) = in[{sg.first("angular_velocity")} + i];
for (int i = 0; i < {STATE["acc"]}; ++i) PX({st.first("acc")} + i) = 0.0f;
for (int k = 0; k < {D * K}; ++k) {{
    const int j = POLICY[k];
    PX({st.first("q")} + k) = j >= 0 ? in[{sg.first("joint_position")} + j] : (float)ZERO[k];
    PX({st.first("qd")} + k) = 0.0f;
    PX({st.first("qa")} + k) = 0.0f;
    const float target = j >= 0 ? (float)POSE[j] : 0.0f;
    for (int t = 0; t < {history}; ++t) H.data[((long long)t * {D * K} + k) * npad + e] = target;
}}
ints.data[{HEAD} * npad + e] = 0;
ints.data[{TILE} * npad + e] = tile;
const double steps = (double)in[{sg.first("delay_s")}] / {d.timestep!r};
const int whole = (int)(steps + 0.5);
const int delay = steps - 0.5 == (double)(whole - 1) && (whole & 1) ? whole - 1 : whole;  // halves to even
const int longest = {(history - 1) * decimation};
ints.data[{DELAY} * npad + e] = delay < 0 ? 0 : delay > longest ? longest : delay;
flags.data[{FAILED} * npad + e] = 0;
flags.data[{TRUNK_CONTACT} * npad + e] = 0;
// ---- parameters
PP({pr.first("mu")}) = in[{sg.first("friction")}];
PP({pr.first("kp")}) = in[{sg.first("kp_scale")}];
PP({pr.first("kd")}) = in[{sg.first("kd_scale")}];
PP({pr.first("strength")}) = in[{sg.first("strength")}];
PP({pr.first("origin")}) = ox;
PP({pr.first("origin") + 1}) = oy;
const double m = {d.trunk_mass!r} + (double)in[{sg.first("payload_kg")}];
double c[3], S[6][6];
for (int i = 0; i < 3; ++i) c[i] = COM[i] + (double)in[{sg.first("com_m")} + i];
const double cc = c[0] * c[0] + c[1] * c[1] + c[2] * c[2];
const double cross[3][3] = {{{{0, -c[2], c[1]}}, {{c[2], 0, -c[0]}}, {{-c[1], c[0], 0}}}};
for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) {{
    const double J = INERTIA[3 * i + j] * (m / {d.trunk_mass!r}) + m * ((i == j ? cc : 0.0) - c[i] * c[j]);
    S[i][j] = i == j ? m : 0.0;
    S[i + 3][j] = m * cross[i][j];
    S[i][j + 3] = -m * cross[i][j];
    S[i + 3][j + 3] = J;
    const double fixed = FIXED[6 * (i + 3) + j + 3];
    const int place[3][3] = {{{{0, 3, 4}}, {{3, 1, 5}}, {{4, 5, 2}}}};
    PP({pr.first("J0_")} + place[i][j]) = (float)(J + fixed);
}}
PP({pr.first("m0")}) = (float)(m + FIXED[0]);
const double first[3] = {{FIXED[6 * 5 + 1], FIXED[6 * 3 + 2], FIXED[6 * 4]}};  // of what is fixed
for (int i = 0; i < 3; ++i) PP({pr.first("h0_")} + i) = (float)(m * c[i] + first[i]);
for (int i = 0; i < 3; ++i) PP({pr.first("com")} + i) = (float)c[i];
// ---- inverse weights: Gauss-Jordan on the 6x6, which is positive definite
double inv[6][6];
for (int i = 0; i < 6; ++i) for (int j = 0; j < 6; ++j) {{ S[i][j] += LEGS[6 * i + j]; inv[i][j] = i == j; }}
for (int k = 0; k < 6; ++k) {{
    const double pivot = 1.0 / S[k][k];
    for (int j = 0; j < 6; ++j) {{ S[k][j] *= pivot; inv[k][j] *= pivot; }}
    for (int i = 0; i < 6; ++i) if (i != k) {{
        const double f = S[i][k];
        for (int j = 0; j < 6; ++j) {{ S[i][j] -= f * S[k][j]; inv[i][j] -= f * inv[k][j]; }}
    }}
}}
double trunk = inv[0][0] + inv[1][1] + inv[2][2];
for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) {{
    trunk -= 2.0 * cross[i][j] * inv[j + 3][i];
    for (int k = 0; k < 3; ++k) trunk += cross[i][j] * inv[j + 3][k + 3] * cross[i][k];
}}
PP({pr.first("body_weight")}) = (float)(trunk / 3.0);
for (int b = 1; b < {bodies}; ++b) {{
    double w = BODY_CONSTANT[b];
    for (int i = 0; i < 36; ++i) w += BODY_FORM[36 * b + i] * inv[i / 6][i % 6];
    PP({pr.first("body_weight")} + b) = (float)w;
}}
for (int k = 0; k < {D * K}; ++k) {{
    const int j = DOF[k];
    double w = 1.0;
    if (j >= 0) {{
        w = DOF_CONSTANT[j];
        for (int i = 0; i < 36; ++i) w += DOF_FORM[36 * j + i] * inv[i / 6][i % 6];
    }}
    PP({pr.first("dof_weight")} + k) = (float)w;
}}
"""
    )
