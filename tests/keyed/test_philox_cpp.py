"""Draws inside kernels are those of the seed plan, and the functions there are those of the library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

from surefoot.compiler.targets import Target, prelude
from surefoot.contract.seeds import EVERY_EPISODE, Split, uniform, words
from surefoot.engines.stride.engine import WIDTH
from surefoot.keyed.cpp import draws
from surefoot.keyed.torch import box_muller

CHANNEL, BLOCKS, NORMALS = 4321, 3, 11
SHAPES = ("solo", "wide")
BODIES = {
    "draw": f"""
const intt family = READ(0), member = READ(1), episode = READ(2), first = READ(3);
real u[{4 * BLOCKS}], n[{NORMALS}];
DRAW(u, {CHANNEL}, {BLOCKS}, first)
NORMALS(n, u, {NORMALS})
for (int i = 0; i < {4 * BLOCKS}; ++i) STORE(out.data, i, u[i]);
for (int i = 0; i < {NORMALS}; ++i) STORE(out.data, {4 * BLOCKS} + i, n[i]);
""",
    "fixed": """
const intt family = READ(0), member = READ(1), episode = READ(2);
real u[4];
DRAW(u, 7, 1, 0)
for (int i = 0; i < 4; ++i) STORE(out.data, i, u[i]);
""",
    "functions": """
const real a = LOAD(x.data, 0), b = LOAD(x.data, 1);
STORE(out.data, 0, LOG(a)); STORE(out.data, 1, EXP(a)); STORE(out.data, 2, ATAN2(a, b));
""",
}


@cache
def kernel(shape: str, body: str) -> Any:
    source = f"""
{prelude(Target(shape, WIDTH if shape == "wide" else 1), 1)}
{draws(shape, cuda=False, split=Split.EVAL)}
const int npad = x.shape[1];
auto READ = [&](int row) -> intt {{
    intt v; for (int l = 0; l < W; ++l) AT(v, l) = ints.data[row * npad + e0 + l]; return v; }};
{BODIES[body]}
"""

    @wp.func_native(source)
    def native(
        tid: int,
        root: wp.uint32,
        ints: wp.array2d(dtype=wp.int32),
        x: wp.array2d(dtype=wp.float32),
        out: wp.array2d(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique")
    def run(
        root: wp.uint32,
        ints: wp.array2d(dtype=wp.int32),
        x: wp.array2d(dtype=wp.float32),
        out: wp.array2d(dtype=wp.float32),
    ):
        native(wp.tid(), root, ints, x, out)

    return run


def launch(
    shape: str,
    body: str,
    rows: int,
    root: int = 0,
    ints: np.ndarray | None = None,
    x: np.ndarray | None = None,
) -> np.ndarray:
    """What the body stores [rows, n] for columns of `ints` (32-bit words) [4, n] and `x` [2, n]."""
    n = ints.shape[1] if ints is not None else x.shape[1]  # type: ignore[union-attr]
    ints = np.zeros((4, n), np.uint32) if ints is None else ints.astype(np.uint32)
    x = np.zeros((2, n), np.float32) if x is None else x
    out = wp.zeros((rows, n), dtype=wp.float32, device="cpu")
    inputs = [root, wp.array(ints.view(np.int32), device="cpu"), wp.array(x, device="cpu"), out]
    wp.launch(kernel(shape, body), dim=n // (WIDTH if shape == "wide" else 1), inputs=inputs, device="cpu")
    found: np.ndarray = out.numpy()
    return found


def addresses(rng: np.random.Generator, n: int = 1024) -> np.ndarray:
    """Family, member, episode, block [4, n]: half of them small, the others any words, with the ends."""
    ints = rng.integers(0, 1 << 32, (4, n), dtype=np.uint32)
    ints[:, : n // 2] %= 100
    ints[3] >>= 3  # draw numbers, four times as large, stay words too
    ints[:3, -4:] = EVERY_EPISODE
    ints[:, -8:-4] = 0
    return ints


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("root", [0, 1, 0x9E3779B9, 0xFFFFFFFF])
def test_uniforms_have_the_bits_of_the_seed_plan(shape: str, root: int) -> None:
    ints = addresses(np.random.default_rng(root))
    family, member, episode, first = ints.astype(np.int64)
    got = launch(shape, "draw", 4 * BLOCKS + NORMALS, root, ints)[: 4 * BLOCKS]
    want = np.stack(
        [
            uniform(words(root, Split.EVAL, f, m, e, CHANNEL, 4 * BLOCKS, 4 * int(b)))
            for f, m, e, b in zip(family, member, episode, first, strict=True)
        ],
        axis=1,
    )
    assert (got == want).all()
    fixed = launch(shape, "fixed", 4, root, ints)
    assert (fixed == uniform(words(root, Split.EVAL, family, member, episode, 7, 4)).T).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_box_mullers(shape: str) -> None:
    """To 1e-6 of the radius: near a zero of the cosine only the radius gives a normal its scale."""
    got = launch(shape, "draw", 4 * BLOCKS + NORMALS, 5, addresses(np.random.default_rng(5), 1 << 14))
    uniforms, normals = got[: 4 * BLOCKS], got[4 * BLOCKS :]
    want = box_muller(torch.from_numpy(np.ascontiguousarray(uniforms.T))).numpy().T[:NORMALS]
    radius = np.sqrt(-2 * np.log1p(-uniforms[0::2].astype(np.float64))).repeat(2, axis=0)[:NORMALS]
    assert (np.abs(normals - want) <= 1e-6 * radius).all()
    assert abs(float(normals.mean())) < 0.01
    assert abs(float(normals.std()) - 1) < 0.01


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the exact values, none finer than 2**-149."""
    return float(
        (np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32))).max()
    )


def both(x: np.ndarray) -> np.ndarray:
    return np.stack([x, x]).astype(np.float32)


Function = Callable[[np.ndarray], np.ndarray]
RNG = np.random.default_rng(0)
ONES = 1 - np.arange(1 << 14) * 2.0**-24
CASES: dict[str, tuple[int, Function, np.ndarray]] = {
    "log of one minus a draw": (
        0,
        np.log,
        np.concatenate([ONES, 1 - RNG.integers(0, 1 << 24, 1 << 16) * 2.0**-24]),
    ),
    "log": (0, np.log, np.exp(RNG.uniform(-87, 88, 1 << 16))),
    "exp": (1, np.exp, RNG.uniform(-87, 88.7, 1 << 16)),
    "exp near zero": (1, np.exp, RNG.uniform(-1, 1, 1 << 16)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_functions_are_good_to_two_units_in_the_last_place(shape: str, case: str) -> None:
    row, exact, points = CASES[case]
    x = both(points)
    assert ulps(launch(shape, "functions", 3, x=x)[row], exact(x[0].astype(np.float64))) < 2.0


@pytest.mark.parametrize("shape", SHAPES)
def test_angles_are_good_to_three_units_in_the_last_place(shape: str) -> None:
    turn, radius = RNG.uniform(-np.pi, np.pi, 1 << 16), np.exp(RNG.uniform(-20, 20, 1 << 16))
    x = np.stack([radius * np.sin(turn), radius * np.cos(turn)]).astype(np.float32)
    x[:, :16] = np.array([[0, 1], [0, -1], [-0.0, -1], [1, 0], [-1, 0], [0, 0], [1, 1], [-1, -1]] * 2).T
    got = launch(shape, "functions", 3, x=x)[2]
    assert ulps(got, np.arctan2(*x.astype(np.float64))) < 3.0


@pytest.mark.parametrize("shape", SHAPES)
def test_functions_end_where_float32_does(shape: str) -> None:
    edge = np.array([0.0, -1.0, 1e-42, np.inf, -np.inf, np.nan, 200.0, -200.0] * 2)
    log, exp, angle = launch(shape, "functions", 3, x=both(edge))
    least = np.float32(np.log(np.finfo(np.float32).tiny))
    assert log[:3].tolist() == pytest.approx([least] * 3)
    assert log[3] == np.inf
    assert exp[[3, 4, 6, 7]].tolist() == [np.inf, 0.0, np.inf, 0.0]
    assert np.isnan([log[5], exp[5], angle[5]]).all()
