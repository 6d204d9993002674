"""Contact of a sphere with the heightfield's own triangles.

Every cell is two triangles, split along the diagonal from its (-x, -y) to its (+x, +y) corner, as in
MuJoCo. A sphere whose centre is above the ground touches it where the distance from its centre has a local
minimum that is less than its radius: on a face always, on an edge or a corner only if no triangle that shares
it comes closer. So flat ground is touched once although it is made of triangles, the edge of a stair is
touched once with the normal that points to the centre, and in the corner of a stair tread and riser both
count. At most two contacts are kept, the deepest ones with different normals.

A centre below the ground (a foot that has sunk in by more than its radius, and every corner of a box) has one
contact, with the closest point of the surface within 0.1 m.

Tiles are periodic: indices wrap, and the ground has no edge.
"""

from __future__ import annotations

import numpy as np

from surefoot.terrain import RESOLUTION_M, SAMPLES, SIZE_M, Atlas

MAX_RADIUS_M = 0.1
"""Larger spheres would reach beyond the three by three cells that are looked at."""


def tile_heights(atlas: Atlas) -> np.ndarray:
    """[2, K, 80, 80]: the height of every sample of every tile (along x, then y), and the highest sample that
    anything over the cell beginning there can touch, by which most points are dismissed."""
    half = SAMPLES // 2
    centres = np.rint((atlas.origins - (atlas.x0, atlas.y0)) / RESOLUTION_M).astype(int)
    heights = np.stack([atlas.heights[i - half : i + half, j - half : j + half] for i, j in centres])
    near = [np.roll(heights, (-a, -b), (1, 2)) for a in (-1, 0, 1, 2) for b in (-1, 0, 1, 2)]
    return np.stack([heights, np.max(near, axis=0)]).astype(np.float32)


GROUND = f"""
auto ground = [&](float px, float py, float pz, float radius, float exists, int e, int most,
                  float found[2][4]) {{
    found[0][0] = found[0][1] = found[1][0] = found[1][1] = 0.0f;
    found[0][2] = found[1][2] = found[0][3] = found[1][3] = 1.0f;
    const float cell = {RESOLUTION_M}f;
    const int side = {SAMPLES}, tile = ints.data[2 * npad + e];
    const float* field = tiles.data + (long long)tile * side * side;
    const float* highest = tiles.data + tiles.shape[0] / 2 + (long long)tile * side * side;
    const float u = (px + {SIZE_M / 2}f) / cell, v = (py + {SIZE_M / 2}f) / cell;
    if (!(exists > 0.5f && u > -1e6f && u < 1e6f && v > -1e6f && v < 1e6f)) return;
    const int i = (int)u - (u < 0.0f), j = (int)v - (v < 0.0f);
    auto wrap = [&](int k) -> int {{ k %= side; return k < 0 ? k + side : k; }};
    if (pz - radius > highest[wrap(i) * side + wrap(j)]) return;
    // vertices relative to the centre
    auto vertex = [&](int a, int b, float out[3]) {{
        out[0] = (float)(a - side / 2) * cell - px;
        out[1] = (float)(b - side / 2) * cell - py;
        out[2] = field[wrap(a) * side + wrap(b)] - pz;
    }};
    auto dot = [](const float* a, const float* b) -> float {{
        return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    }};
    auto cross = [](const float* a, const float* b, float* out) {{
        out[0] = a[1] * b[2] - a[2] * b[1];
        out[1] = a[2] * b[0] - a[0] * b[2];
        out[2] = a[0] * b[1] - a[1] * b[0];
    }};
    // closest point of triangle abc to the point p (Ericson); returns whether it is inside the face
    auto closest = [&](const float* a, const float* b, const float* c, const float* p, float* q) -> bool {{
        float ab[3], ac[3], ap[3], bp[3], cp[3];
        for (int k = 0; k < 3; ++k) {{
            ab[k] = b[k] - a[k]; ac[k] = c[k] - a[k];
            ap[k] = p[k] - a[k]; bp[k] = p[k] - b[k]; cp[k] = p[k] - c[k];
        }}
        const float d1 = dot(ab, ap), d2 = dot(ac, ap), d3 = dot(ab, bp), d4 = dot(ac, bp);
        const float d5 = dot(ab, cp), d6 = dot(ac, cp);
        const float vc = d1 * d4 - d3 * d2, vb = d5 * d2 - d1 * d6, va = d3 * d6 - d5 * d4;
        if (d1 <= 0.0f && d2 <= 0.0f) {{ for (int k = 0; k < 3; ++k) q[k] = a[k]; return false; }}
        if (d3 >= 0.0f && d4 <= d3) {{ for (int k = 0; k < 3; ++k) q[k] = b[k]; return false; }}
        if (d6 >= 0.0f && d5 <= d6) {{ for (int k = 0; k < 3; ++k) q[k] = c[k]; return false; }}
        if (vc <= 0.0f && d1 >= 0.0f && d3 <= 0.0f) {{
            const float s = d1 / (d1 - d3);
            for (int k = 0; k < 3; ++k) q[k] = a[k] + s * ab[k];
            return false;
        }}
        if (vb <= 0.0f && d2 >= 0.0f && d6 <= 0.0f) {{
            const float s = d2 / (d2 - d6);
            for (int k = 0; k < 3; ++k) q[k] = a[k] + s * ac[k];
            return false;
        }}
        if (va <= 0.0f && d4 - d3 >= 0.0f && d5 - d6 >= 0.0f) {{
            const float s = (d4 - d3) / ((d4 - d3) + (d5 - d6));
            for (int k = 0; k < 3; ++k) q[k] = b[k] + s * (c[k] - b[k]);
            return false;
        }}
        float n[3];
        cross(ab, ac, n);
        const float s = dot(n, ap) / dot(n, n);
        for (int k = 0; k < 3; ++k) q[k] = p[k] - s * n[k];
        return true;
    }};
    // triangle t of cell (a, b): 0 holds the corner at +x, 1 the one at +y; counter-clockwise from above
    auto triangle = [&](int a, int b, int t, float tri[3][3]) {{
        vertex(a, b, tri[0]);
        if (t == 0) {{ vertex(a + 1, b, tri[1]); vertex(a + 1, b + 1, tri[2]); }}
        else {{ vertex(a + 1, b + 1, tri[1]); vertex(a, b + 1, tri[2]); }}
    }};
    float tri[3][3];
    const float origin[3] = {{0.0f, 0.0f, 0.0f}};
    triangle(i, j, u - (float)i >= v - (float)j ? 0 : 1, tri);
    float n[3];
    {{
        float ab[3], ac[3];
        for (int k = 0; k < 3; ++k) {{ ab[k] = tri[1][k] - tri[0][k]; ac[k] = tri[2][k] - tri[0][k]; }}
        cross(ab, ac, n);
    }}
    const float depth = dot(n, tri[0]) / n[2];  // of the centre below the ground
    const bool inside = depth > 0.0f;
    if (depth < -1.0f) return;
    float reach = inside ? depth * 1.0001f + 1e-4f : radius;
    reach = reach < {MAX_RADIUS_M}f ? reach : {MAX_RADIUS_M}f;
    const float lu = u - reach / cell, lv = v - reach / cell, hu = u + reach / cell, hv = v + reach / cell;
    const int i0 = (int)lu - (lu < 0.0f), j0 = (int)lv - (lv < 0.0f);
    const int i1 = (int)hu - (hu < 0.0f), j1 = (int)hv - (hv < 0.0f);
    float q[18][3], d[18];
    bool face[18];
    int count = 0, best = -1;
    for (int a = i0; a <= i1; ++a) for (int b = j0; b <= j1; ++b) for (int t = 0; t < 2; ++t) {{
        triangle(a, b, t, tri);
        face[count] = closest(tri[0], tri[1], tri[2], origin, q[count]);
        d[count] = ROOT(dot(q[count], q[count]));
        // rounding hides how much closer a face is than the edge beside it: faces win ties
        if (best < 0 || d[count] < d[best] * (face[count] ? 1.000001f : 1.0f)) best = count;
        ++count;
        if (count == 18) {{ a = i1; b = j1; break; }}
    }}
    const float flat = 1.0f / ROOT(dot(n, n));
    auto take = [&](int k, float* out) {{
        // at the surface itself the direction is that of the face
        const float sign = inside ? 1.0f : -1.0f;
        for (int m = 0; m < 3; ++m) out[m] = d[k] > 1e-6f ? sign * q[k][m] / d[k] : n[m] * flat;
        out[3] = -sign * d[k] - radius;
    }};
    if (inside || d[best] < radius) take(best, found[0]);
    if (inside || most < 2 || !(d[best] < radius)) return;
    int second = -1;
    for (int k = 0; k < count; ++k) {{
        if (k == best || d[k] >= radius || (second >= 0 && d[k] >= d[second])) continue;
        if (dot(q[k], q[best]) > 0.9999f * d[k] * d[best]) continue;
        bool lowest = true;
        if (!face[k]) {{
            int at = 0;
            for (int a = i0; a <= i1 && lowest; ++a)
            for (int b = j0; b <= j1 && lowest; ++b)
            for (int t = 0; t < 2; ++t, ++at) {{
                if (at == k || at >= count || d[at] >= d[k]) continue;
                float near[3], gap[3];
                triangle(a, b, t, tri);
                closest(tri[0], tri[1], tri[2], q[k], near);
                for (int m = 0; m < 3; ++m) gap[m] = near[m] - q[k][m];
                if (dot(gap, gap) < 1e-10f) lowest = false;
            }}
        }}
        if (lowest) second = k;
    }}
    if (second >= 0) take(second, found[1]);
}};
"""
"""C++: `found[k]` is the normal (world) and the signed distance of contact k; 1 is no contact."""
