"""Contact of a sphere with the heightfield's own triangles.

Every cell is two triangles, split along the diagonal from its (-x, -y) to its (+x, +y) corner, as in
MuJoCo. A sphere whose centre is above the ground touches it where the distance from its centre has a local
minimum that is less than its radius: on a face always, on an edge or a corner only if no triangle that shares
it comes closer. So flat ground is touched once although it is made of triangles, the edge of a stair is
touched once with the normal that points to the centre, and in the corner of a stair tread and riser both
count. At most two contacts are kept, the deepest ones with different normals.

A centre below the ground (a foot that has sunk in by more than its radius, and every corner of a box) has one
contact, with the closest local minimum within 0.1 m, or else with the point straight above.

The search takes the patch of two by two cells around the sample nearest to the centre, which holds all that a
sphere of up to half a cell can touch; a larger one takes the four patches around it. In a patch a face counts
if the centre's projection lies on it. An edge between two faces counts if the projection lies on it and the
faces' far corners are not nearer than that point, measured along the line to it; the sample in the middle
counts if none of its neighbours is nearer so. The rim of a patch is out of reach.

Tiles are periodic: indices wrap, and the ground has no edge.
"""

from __future__ import annotations

import numpy as np

from surefoot.terrain import RESOLUTION_M, SAMPLES, Atlas

MAX_RADIUS_M = RESOLUTION_M
"""Larger spheres would reach beyond the four patches that are looked at."""


def tile_heights(atlas: Atlas) -> np.ndarray:
    """[2, K, 80, 80]: the height of every sample of every tile (along x, then y), and the highest sample of
    the patch around it, by which most points are dismissed."""
    half = SAMPLES // 2
    centres = np.rint((atlas.origins - (atlas.x0, atlas.y0)) / RESOLUTION_M).astype(int)
    heights = np.stack([atlas.heights[i - half : i + half, j - half : j + half] for i, j in centres])
    near = [np.roll(heights, (-a, -b), (1, 2)) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return np.stack([heights, np.max(near, axis=0)]).astype(np.float32)


GROUND = f"""
#ifndef LARGE_SPHERES
#define LARGE_SPHERES 1
#endif
enum {{ SIDE = {SAMPLES} }};
const float CELL = {RESOLUTION_M}f, PER_M = {1 / RESOLUTION_M}f;
auto wrap = [](int k) -> int {{ k %= SIDE; return k < 0 ? k + SIDE : k; }};
// the sample nearest to x, and (`to`) whether the next nearest is before or after it
auto nearest = [&](float x, int* to) -> int {{
    const float u = x * PER_M + {SAMPLES / 2 + 0.5}f;
    const int i = (int)u - (u < 0.0f);
    *to = (float)(i - SIDE / 2) * CELL < x ? 1 : -1;
    return i;
}};
auto ground_near = [&](float px, float py, float pz, float radius, float exists, int env) -> bool {{
    const bool asked = (exists > 0.5f) & (px > -1e5f) & (px < 1e5f) & (py > -1e5f) & (py < 1e5f);
    const int tile = ints.data[2 * npad + env];
    const float* highest = tiles.data + tiles.shape[0] / 2 + (long long)tile * SIDE * SIDE;
    int a, b;
    const int i = nearest(asked ? px : 0.0f, &a), j = nearest(asked ? py : 0.0f, &b);
    float top = highest[wrap(i) * SIDE + wrap(j)];
    if (LARGE_SPHERES && radius > 0.5f * CELL) {{
        top = MAX(top, highest[wrap(i + a) * SIDE + wrap(j)]);
        top = MAX(top, highest[wrap(i) * SIDE + wrap(j + b)]);
        top = MAX(top, highest[wrap(i + a) * SIDE + wrap(j + b)]);
    }}
    return asked & (pz - radius <= top);
}};
auto ground = [&](float px, float py, float pz, float radius, int env, float found[2][4]) {{
    for (int k = 0; k < 4; ++k) found[0][k] = found[1][k] = 1.0f;
    const float* field = tiles.data + (long long)ints.data[2 * npad + env] * SIDE * SIDE;
    const float slack = 4e-6f;  // for rounding: where features meet, one of them must count
    // the patch: its middle (x, y), heights by place, and whether all are equal
    float x, y, sw, s, se, w, o, e, nw, n, ne;
    bool flat;
    auto load = [&](int i, int j) {{
        x = ((float)(i - SIDE / 2) * CELL - px) * PER_M;
        y = ((float)(j - SIDE / 2) * CELL - py) * PER_M;
        i = wrap(i), j = wrap(j);
        const float* row = field + i * SIDE;
        const float* before = field + (i > 0 ? i - 1 : SIDE - 1) * SIDE;
        const float* after = field + (i < SIDE - 1 ? i + 1 : 0) * SIDE;
        const int down = j > 0 ? j - 1 : SIDE - 1, up = j < SIDE - 1 ? j + 1 : 0;
        sw = before[down], w = before[j], nw = before[up];
        s = row[down], o = row[j], n = row[up];
        se = after[down], e = after[j], ne = after[up];
        flat = (sw == o) & (w == o) & (nw == o) & (s == o) & (n == o) & (se == o) & (e == o) & (ne == o);
        sw = (sw - pz) * PER_M, w = (w - pz) * PER_M, nw = (nw - pz) * PER_M;
        s = (s - pz) * PER_M, o = (o - pz) * PER_M, n = (n - pz) * PER_M;
        se = (se - pz) * PER_M, e = (e - pz) * PER_M, ne = (ne - pz) * PER_M;
    }};
    int a, b;
    const int i = nearest(px, &a), j = nearest(py, &b);
    load(i, j);
    // the face below or above the centre: its height and slopes
    const float beside = a > 0 ? e : w, along = b > 0 ? n : s;
    const float north = a > 0 ? ne : nw, south = a > 0 ? se : sw, corner = b > 0 ? north : south;
    const bool first = (a != b) | (x * x >= y * y), second = (a != b) | (x * x < y * y);
    const float gx = (float)a * ((first ? beside : corner) - (first ? o : along));
    const float gy = (float)b * ((second ? along : corner) - (second ? o : beside));
    const float depth = o - gx * x - gy * y;  // of the centre
    const float r = radius * PER_M;
    const bool inside = depth > 0.0f;
    if (!inside && r == 0.0f) return;
    const float limit = inside ? depth * depth * 1.0001f + 1e-9f : r * r;  // of squared distance
    // what counts: place and squared distance
    float list[4 * 17][4];
    int count = 0;
    auto offer = [&](bool counts, float qx, float qy, float qz, float d) {{
        if (counts && d < limit) {{
            list[count][0] = qx, list[count][1] = qy, list[count][2] = qz, list[count][3] = d;
            ++count;
        }}
    }};
    // a face of the cell that begins at (cx, cy, cz), by its slopes; `right`: the half at +x
    auto face = [&](float cx, float cy, float cz, float gx, float gy, bool right) {{
        const float m = cz - gx * cx - gy * cy, k = m / (1.0f + gx * gx + gy * gy);
        const float qx = -gx * k, qy = -gy * k, u = qx - cx, v = qy - cy;
        const float small = right ? v : u, large = right ? u : v;
        offer((small >= 0.0f) & (large >= small) & (large <= 1.0f), qx, qy, k, m * k);
    }};
    auto cell = [&](float cx, float cy, float z00, float z10, float z01, float z11) {{
        face(cx, cy, z00, z10 - z00, z11 - z10, true);
        face(cx, cy, z00, z11 - z01, z01 - z00, false);
    }};
    // an edge from (cx, cy, cz) by (ex, ey, ez); its faces have far corners (fx, fy, fz) and (gx, gy, gz)
    auto edge = [&](float cx, float cy, float cz, float ex, float ey, float ez, float fx, float fy, float fz,
                    float gx, float gy, float gz) {{
        const float t = -(cx * ex + cy * ey + cz * ez) / (ex * ex + ey * ey + ez * ez);
        const float qx = cx + t * ex, qy = cy + t * ey, qz = cz + t * ez, d = qx * qx + qy * qy + qz * qz;
        const float f = qx * fx + qy * fy + qz * fz, g = qx * gx + qy * gy + qz * gz;
        offer((t > 0.0f) & (t < 1.0f) & (MIN(f, g) >= d - slack), qx, qy, qz, d);
    }};
    const int patches = (!LARGE_SPHERES || r <= 0.5f) && depth <= 0.5f ? 1 : 4;
    ROLLED for (int turn = 0; turn < patches; ++turn) {{
        if (turn) load(i + (turn & 1 ? a : 0), j + (turn & 2 ? b : 0));
        const float W = x - 1.0f, E = x + 1.0f, S = y - 1.0f, N = y + 1.0f;
        if (flat) {{
            offer(true, 0.0f, 0.0f, o, o * o);
            continue;
        }}
        cell(W, S, sw, s, w, o);
        cell(x, S, s, se, o, e);
        cell(W, y, w, o, nw, n);
        cell(x, y, o, e, n, ne);
        // around the middle: east, north-east, north, west, south-west, south
        edge(x, y, o, 1.0f, 0.0f, e - o, E, N, ne, x, S, s);
        edge(x, y, o, 1.0f, 1.0f, ne - o, E, y, e, x, N, n);
        edge(x, y, o, 0.0f, 1.0f, n - o, E, N, ne, W, y, w);
        edge(x, y, o, -1.0f, 0.0f, w - o, x, N, n, W, S, sw);
        edge(x, y, o, -1.0f, -1.0f, sw - o, W, y, w, x, S, s);
        edge(x, y, o, 0.0f, -1.0f, s - o, W, S, sw, E, y, e);
        edge(W, y, w, 1.0f, 1.0f, n - w, x, y, o, W, N, nw);
        edge(x, S, s, 1.0f, 1.0f, e - s, x, y, o, E, S, se);
        const float d = x * x + y * y + o * o, least = d - slack;
        offer((x * E + y * y + o * e >= least) & (x * E + y * N + o * ne >= least)
            & (x * x + y * N + o * n >= least) & (x * W + y * y + o * w >= least)
            & (x * W + y * S + o * sw >= least) & (x * x + y * S + o * s >= least), x, y, o, d);
    }}
    // rounding must not lose the ground: straight below or above it is never far
    if (!count) offer(inside || depth > -r, 0.0f, 0.0f, depth, depth * depth);
    if (!count) return;
    const float sign = inside ? 1.0f : -1.0f;
    auto give = [&](float qx, float qy, float qz, float d, float* out) {{
        // at the surface itself the direction is that of the face
        const bool at = d < 1e-10f;
        const float nx = at ? -gx : sign * qx, ny = at ? -gy : sign * qy, nz = at ? 1.0f : sign * qz;
        const float scale = 1.0f / ROOT(nx * nx + ny * ny + nz * nz);
        out[0] = nx * scale, out[1] = ny * scale, out[2] = nz * scale;
        out[3] = -sign * CELL * ROOT(d) - radius;
    }};
    // rounding hides how much closer a face is than the edge beside it: faces, which come first, win ties
    int best = 0;
    ROLLED for (int k = 1; k < count; ++k) if (list[k][3] < 0.999999f * list[best][3]) best = k;
    const float ax = list[best][0], ay = list[best][1], az = list[best][2], ad = list[best][3];
    give(ax, ay, az, ad, found[0]);
    if (inside || ad < 1e-6f) return;
    float bx = 0.0f, by = 0.0f, bz = 0.0f, bd = limit;
    ROLLED for (int k = 0; k < count; ++k) {{
        const float qx = list[k][0], qy = list[k][1], qz = list[k][2], d = list[k][3];
        const float t = ax * qx + ay * qy + az * qz;
        const bool parallel = (t > 0.0f) & (t * t > 0.9998f * ad * d);
        if (!parallel & (d < bd)) bx = qx, by = qy, bz = qz, bd = d;
    }}
    if (bd < limit) give(bx, by, bz, bd, found[1]);
}};
"""
"""C++: `ground_near` says whether the ground may be within reach. `ground` then finds it: `found[k]` is the
normal (world) and the signed distance of contact k; 1 is no contact. LARGE_SPHERES 0 promises that none is
larger than half a cell. Inside, lengths are in cells and places relative to the centre."""
