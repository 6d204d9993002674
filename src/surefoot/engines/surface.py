"""Heightfields as surfaces in native MuJoCo: contacts by closest point on the triangles.

MuJoCo collides with the two prisms of every cell one by one, and a sphere on level ground also touches the
edges of the prisms beside its own, with normals that lean (docs/internals/engines.md says what that does to a
policy). No option of MuJoCo's changes it. Its table of collision functions can be changed, and `use_surfaces`
does: spheres, capsules (by their ends) and boxes (by their corners) then touch a marked heightfield where the
distance from the point to the triangles has a local minimum. All such minima of a sphere count; a centre
below the ground has one contact, with the closest point. Heightfields without the mark, and all other geoms,
keep MuJoCo's prisms.

The search is the plain one: every face, edge and sample within reach, in float64. It shares no code with
stride's, so that one can confirm the other. Warp's compiler builds it, as it builds stride; the layouts of
structs are those of MuJoCo's own headers.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import warp as wp

from surefoot.compute.warp import start_warp
from surefoot.contract import SurefootError
from surefoot.engines.surface_kernel import make_functions

SURFACE_BASE_M = 1.0 + 2.0**-10
"""The base of a heightfield that is a surface. A surface has none, so this number, exact in binary, is the
mark; what still collides with prisms (meshes, cylinders, ellipsoids) finds solid ground of that depth."""

HEADERS = ("mjtype.h", "mjmodel.h", "mjdata.h")

SHAPES = (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_BOX)

SURFACE = f"""
static const double MARK = {SURFACE_BASE_M!r};
static const double PARALLEL = 0.9999;  // cosine: two contacts with one normal are one
enum {{ MOST = 8 }};  // contacts of a sphere
static unsigned long long stock[{len(SHAPES)}];

struct Vector {{
    double x, y, z;
    Vector operator-(Vector b) const {{ return {{x - b.x, y - b.y, z - b.z}}; }}
    Vector operator+(Vector b) const {{ return {{x + b.x, y + b.y, z + b.z}}; }}
    Vector operator*(double k) const {{ return {{k * x, k * y, k * z}}; }}
    double dot(Vector b) const {{ return x * b.x + y * b.y + z * b.z; }}
}};

// The samples, in the heightfield's frame. Beyond its rim the ground is level.
struct Field {{
    int columns, rows;
    double half_x, half_y, dx, dy, top;
    const float* data;
    Vector sample(int i, int j) const {{
        const int c = i < 0 ? 0 : i < columns ? i : columns - 1, r = j < 0 ? 0 : j < rows ? j : rows - 1;
        return {{i * dx - half_x, j * dy - half_y, top * data[r * columns + c]}};
    }}
    int column(double x) const {{ return (int)floor((x + half_x) / dx); }}
    int row(double y) const {{ return (int)floor((y + half_y) / dy); }}
}};

struct Contact {{ Vector normal; double distance; }};

// The local minima of distance from a centre to the triangles.
struct Search {{
    Vector centre;
    double limit;  // of distance
    bool inside;
    Contact found[MOST];
    int count;

    // keeps the closest of those with one normal, sorted by distance
    void offer(Vector point, Vector outward) {{
        const Vector away = inside ? point - centre : centre - point;
        const double distance = sqrt(away.dot(away));
        if (distance > limit) return;
        const bool at = distance < 1e-9;  // at the surface itself the direction is that of the face
        const Vector normal = at ? outward * (1.0 / sqrt(outward.dot(outward))) : away * (1.0 / distance);
        int place = count;
        for (int k = 0; k < count; ++k) {{
            if (found[k].normal.dot(normal) < PARALLEL) continue;
            if (found[k].distance <= distance) return;
            for (int m = k + 1; m < count; ++m) found[m - 1] = found[m];
            place = --count;
            break;
        }}
        while (place > 0 && found[place - 1].distance > distance) --place;
        if (place == MOST) return;
        if (count == MOST) --count;
        for (int m = count; m > place; --m) found[m] = found[m - 1];
        found[place] = {{normal, distance}};
        ++count;
    }}
    void face(Vector a, Vector b, Vector c) {{
        const Vector u = b - a, v = c - a, w = centre - a;
        const Vector n = {{u.y * v.z - u.z * v.y, u.z * v.x - u.x * v.z, u.x * v.y - u.y * v.x}};
        const double height = w.dot(n) / n.dot(n);
        if (inside ? height > 0.0 : height < 0.0) return;  // the far side of a ridge is behind the ground
        const Vector p = w - n * height;  // the foot, from a
        const double uu = u.dot(u), uv = u.dot(v), vv = v.dot(v), pu = p.dot(u), pv = p.dot(v);
        const double whole = uu * vv - uv * uv;
        const double s = (vv * pu - uv * pv) / whole, t = (uu * pv - uv * pu) / whole;
        if (s >= 0.0 && t >= 0.0 && s + t <= 1.0) offer(a + p, n);
    }}
    // between two faces whose far corners are f and g: neither comes closer
    void edge(Vector a, Vector b, Vector f, Vector g) {{
        const Vector e = b - a;
        const double s = (centre - a).dot(e) / e.dot(e);
        if (!(s > 0.0 && s < 1.0)) return;
        const Vector point = a + e * s, to = centre - point;
        const double slack = 1e-12;  // m^2: where features meet, rounding must not lose them all
        if (to.dot(f - point) <= slack && to.dot(g - point) <= slack) offer(point, {{0.0, 0.0, 1.0}});
    }}
    void corner(Vector a, const Vector* around, int count) {{
        for (int k = 0; k < count; ++k) if ((centre - a).dot(around[k] - a) > 1e-12) return;
        offer(a, {{0.0, 0.0, 1.0}});
    }}
}};

struct Ground {{
// Contacts of a sphere (or a point, radius 0) with the field, in its frame: how many were found.
static int touch(const Field& field, Vector centre, double radius, double margin, Search& search) {{
    search.centre = centre, search.count = 0;
    if (!(centre.x > -field.half_x && centre.x < field.half_x && centre.y > -field.half_y
          && centre.y < field.half_y)) return 0;
    const int i = field.column(centre.x), j = field.row(centre.y);
    // the face straight below or above
    const Vector origin = field.sample(i, j), opposite = field.sample(i + 1, j + 1);
    const double a = (centre.x - origin.x) / field.dx, b = (centre.y - origin.y) / field.dy;
    const Vector third = a >= b ? field.sample(i + 1, j) : field.sample(i, j + 1);
    const double rise_x = a >= b ? third.z - origin.z : opposite.z - third.z;
    const double rise_y = a >= b ? opposite.z - third.z : third.z - origin.z;
    const double depth = origin.z + a * rise_x + b * rise_y - centre.z;
    search.inside = depth > 0.0;
    search.limit = search.inside ? depth * (1.0 + 1e-9) + 1e-12 : radius + margin;
    // whoever is deeper than 0.3 m is pushed straight up
    if (search.limit > 0.0 && !(search.inside && depth > 0.3)) {{
        const int i0 = field.column(centre.x - search.limit), i1 = field.column(centre.x + search.limit) + 1;
        const int j0 = field.row(centre.y - search.limit), j1 = field.row(centre.y + search.limit) + 1;
        double highest = -1e30;
        for (int m = j0; m <= j1; ++m) for (int k = i0; k <= i1; ++k) {{
            const double z = field.sample(k, m).z;
            highest = z > highest ? z : highest;
        }}
        if (centre.z - search.limit > highest) return 0;
        for (int m = j0; m <= j1; ++m) for (int k = i0; k <= i1; ++k) {{
            const Vector o = field.sample(k, m), e = field.sample(k + 1, m), n = field.sample(k, m + 1);
            const Vector ne = field.sample(k + 1, m + 1), w = field.sample(k - 1, m);
            const Vector s = field.sample(k, m - 1), sw = field.sample(k - 1, m - 1);
            search.face(o, e, ne);
            search.face(o, ne, n);
            search.edge(o, e, ne, s);
            search.edge(o, ne, e, n);
            search.edge(o, n, ne, w);
            const Vector around[6] = {{e, ne, n, w, sw, s}};
            search.corner(o, around, 6);
        }}
    }}
    // straight below or above is never far: rounding must not lose the ground
    const Vector straight = {{centre.x, centre.y, centre.z + depth}};
    if (!search.count) search.offer(straight, {{-rise_x / field.dx, -rise_y / field.dy, 1.0}});
    if (search.inside && search.count) search.count = 1;
    return search.count;
}}

// Contacts of points or spheres around them, given in the world's frame. Of a box's corners only those count
// that look down, as on MuJoCo's plane: `middle` is its centre.
static int touch_all(const mjModel* m, mjData* d, mjPreContact* out, int ground, double margin,
                     const Vector* points, int count, double radius, const Vector* middle = nullptr) {{
    const int id = m->geom_dataid[ground];
    const double* size = m->hfield_size + 4 * id;
    const int columns = m->hfield_ncol[id], rows = m->hfield_nrow[id];
    const Field field = {{columns, rows, size[0], size[1], 2.0 * size[0] / (columns - 1),
                         2.0 * size[1] / (rows - 1), size[2], m->hfield_data + m->hfield_adr[id]}};
    const double *p = d->geom_xpos + 3 * ground, *R = d->geom_xmat + 9 * ground;
    const Vector X = {{R[0], R[3], R[6]}}, Y = {{R[1], R[4], R[7]}}, Z = {{R[2], R[5], R[8]}};
    int made = 0;
    for (int k = 0; k < count; ++k) {{
        const Vector centre = points[k], v = centre - Vector{{p[0], p[1], p[2]}};
        Search search;
        const int found = touch(field, {{v.dot(X), v.dot(Y), v.dot(Z)}}, radius, margin, search);
        for (int c = 0; c < found && made < mjMAXCONPAIR; ++c) {{
            const Vector n = search.found[c].normal, world = X * n.x + Y * n.y + Z * n.z;
            if (middle && (centre - *middle).dot(world) > 0.0) continue;
            const double distance = (search.inside ? -1.0 : 1.0) * search.found[c].distance - radius;
            const Vector at = centre - world * (radius + 0.5 * distance);  // half way between the surfaces
            mjPreContact& contact = out[made++];
            contact.dist = distance;
            contact.pos[0] = at.x, contact.pos[1] = at.y, contact.pos[2] = at.z;
            contact.normal[0] = world.x, contact.normal[1] = world.y, contact.normal[2] = world.z;
            contact.tangent[0] = contact.tangent[1] = contact.tangent[2] = 0.0;
        }}
    }}
    return made;
}}
static bool marked(const mjModel* m, int ground) {{
    return m->hfield_size[4 * m->geom_dataid[ground] + 3] == MARK;
}}
static int sphere(const mjModel* m, mjData* d, mjPreContact* out, int g1, int g2, mjtNum margin) {{
    if (!marked(m, g1)) return ((mjfCollision)stock[0])(m, d, out, g1, g2, margin);
    const double* p = d->geom_xpos + 3 * g2;
    const Vector points[1] = {{{{p[0], p[1], p[2]}}}};
    return touch_all(m, d, out, g1, margin, points, 1, m->geom_size[3 * g2]);
}}
static int capsule(const mjModel* m, mjData* d, mjPreContact* out, int g1, int g2, mjtNum margin) {{
    if (!marked(m, g1)) return ((mjfCollision)stock[1])(m, d, out, g1, g2, margin);
    const double *p = d->geom_xpos + 3 * g2, *R = d->geom_xmat + 9 * g2, h = m->geom_size[3 * g2 + 1];
    const Vector c = {{p[0], p[1], p[2]}}, along = {{h * R[2], h * R[5], h * R[8]}};
    const Vector points[2] = {{c + along, c - along}};
    return touch_all(m, d, out, g1, margin, points, 2, m->geom_size[3 * g2]);
}}
static int box(const mjModel* m, mjData* d, mjPreContact* out, int g1, int g2, mjtNum margin) {{
    if (!marked(m, g1)) return ((mjfCollision)stock[2])(m, d, out, g1, g2, margin);
    const double *p = d->geom_xpos + 3 * g2, *R = d->geom_xmat + 9 * g2, *size = m->geom_size + 3 * g2;
    const Vector c = {{p[0], p[1], p[2]}};
    const Vector x = Vector{{R[0], R[3], R[6]}} * size[0], y = Vector{{R[1], R[4], R[7]}} * size[1];
    const Vector z = Vector{{R[2], R[5], R[8]}} * size[2];
    Vector points[8];
    for (int k = 0; k < 8; ++k)
        points[k] = c + x * (k & 1 ? 1.0 : -1.0) + y * (k & 2 ? 1.0 : -1.0) + z * (k & 4 ? 1.0 : -1.0);
    return touch_all(m, d, out, g1, margin, points, 8, 0.0, &c);
}}
}};
for (int k = 0; k < {len(SHAPES)}; ++k) stock[k] = given.data[k];
made.data[0] = (unsigned long long)&Ground::sphere;
made.data[1] = (unsigned long long)&Ground::capsule;
made.data[2] = (unsigned long long)&Ground::box;
"""
"""C++: puts the addresses of MuJoCo's functions away and gives those of ours, in the order of SHAPES."""


def make_surface(model: mujoco.MjModel) -> None:
    """Makes surfaces of a model's heightfields, for whoever steps it in this process."""
    use_surfaces()
    model.hfield_size[:, 3] = SURFACE_BASE_M


@cache
def use_surfaces() -> Any:
    """Puts our functions for spheres, capsules and boxes into MuJoCo's table, once for the whole process.
    Returns the kernel that holds their code, which is kept for as long."""
    start_warp()
    functions = make_functions(_layouts() + SURFACE)
    row = collision_functions()[int(mujoco.mjtGeom.mjGEOM_HFIELD)]
    given = np.array([row[int(shape)] for shape in SHAPES], np.uint64)
    made = np.zeros_like(given)
    arrays = [wp.array(a, copy=False, device="cpu") for a in (given, made)]
    wp.launch(functions, dim=1, inputs=arrays, device="cpu")
    for shape, address in zip(SHAPES, made, strict=True):
        row[int(shape)] = int(address)
    return functions


def _layouts() -> str:
    """MuJoCo's headers of model and data as one text that needs no other header."""
    folder = Path(mujoco.__file__).parent / "include" / "mujoco"
    missing = [n for n in HEADERS if not (folder / n).is_file()]
    if missing:
        raise SurefootError(
            f"{folder} has no {', '.join(missing)}, which contact with heightfields is compiled from; "
            "install the mujoco package anew."
        )
    lines = [x for n in HEADERS for x in (folder / n).read_text().splitlines(True) if "#include" not in x]
    # Warp has a macro of this name, for what looks like a call, and lacks one type of the C library's.
    return "#undef int\ntypedef size_t uintptr_t;\n" + "".join(lines)


def collision_functions() -> Any:
    """mjCOLLISIONFUNC of the library that Python's MuJoCo has loaded: addresses [kind, kind]."""
    folder = Path(mujoco.__file__).parent
    (library,) = (*folder.glob("libmujoco.*"), *folder.glob("mujoco.dll"))
    kinds = int(mujoco.mjtGeom.mjNGEOMTYPES)
    return (ctypes.c_uint64 * kinds * kinds).in_dll(ctypes.CDLL(str(library)), "mjCOLLISIONFUNC")
