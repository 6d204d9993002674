"""Claims about stride's machine code: it is made without a GPU, and counted as the benchmark says."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import warp as wp

from places import BENCHMARKS
from surefoot.compiler.program import Program

sys.path.insert(0, str(BENCHMARKS))

from engines import GROUNDS, PLANTS
from fetching import TOGETHER, loop_source, make_loop, sums_as_written
from machine_code import ARCHITECTURE, Lanes, Listing, compiled, figures
from surefoot.robots import robot
from surefoot.terrain import Atlas

LISTING = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_9:
        /*0010*/                   SHFL.BFLY PT, R2, R3, 0x1, 0x1f ;
.L_x_5:
        /*0018*/               @P5 BRA `(.L_x_10) ;
        /*0020*/                   SHFL.BFLY PT, R4, R2, 0x1, 0x1f ;
        /*0030*/              @!P0 BRA `(.L_x_7) ;
.L_x_6:
        /*0040*/                   FMUL R5, R5, R5 ;
        /*0050*/               @P1 BRA `(.L_x_6) ;
        /*0060*/                   FMUL R6, R6, R6 ;
.L_x_7:
        /*0070*/                   SHFL.BFLY PT, R7, R4, 0x2, 0x1f ;
.L_x_8:
        /*0080*/                   SHFL.BFLY PT, R7, R4, 0x2, 0x1f ;
        /*0090*/               @P3 BRA `(.L_x_8) ;
.L_x_10:
        /*00a0*/               @P2 BRA `(.L_x_5) ;
        /*00b0*/               @P4 BRA `(.L_x_9) ;
        /*00c0*/                   EXIT ;
"""


def test_the_shortest_way_takes_no_branch_that_it_need_not() -> None:
    listing = Listing.read(LISTING)
    assert listing.loops() == [(5, 6), (9, 10), (2, 11), (1, 12)]
    assert listing.shortest(3, 11) == [3, 4, 8, 9, 10, 11]
    assert listing.shortest(2, 11) == [2, 11], "a warp that waits"
    assert figures(listing) == {
        "turn of the line search": {"instructions": 2, "shuffles": 1, "loop": 2},
        "iteration": {"instructions": 7, "shuffles": 3, "loop": 10},
        "physics step": {"instructions": 4, "shuffles": 1, "loop": 12},
    }


@pytest.mark.parametrize("ground", GROUNDS)
def test_the_kernels_for_cuda_compile(tmp_path: Path, ground: str) -> None:
    """To a binary for an H200, which takes no GPU."""
    if ARCHITECTURE not in wp.get_cuda_supported_archs():
        pytest.skip("Warp has no compiler for CUDA here")
    tile = GROUNDS[ground]
    found = compiled("evaluation", tmp_path, None if tile is None else Atlas.build([tile]))
    assert found.suffix == ".cubin"
    assert found.stat().st_size > 50_000


def test_the_document_tells_what_was_read() -> None:
    made = json.loads((BENCHMARKS / "machine_code.json").read_text())["plants"]
    text = " ".join((BENCHMARKS.parent / "docs" / "internals" / "engines.md").read_text().split())
    counted = json.loads((BENCHMARKS / "flops.json").read_text())["plants"]
    assert all(made[plant]["counted"] == counted[plant]["lane"] for plant in made), "read it again"
    one, other = (made[plant]["iteration"] for plant in ("plain", "evaluation"))
    assert f"is {one['instructions']:,} instructions of an H200 ({other['instructions']:,} on the" in text
    assert f"{one['shuffles']} of them shuffles" in text
    one, other = (made[plant]["turn of the line search"] for plant in ("plain", "evaluation"))
    assert f"and a turn of the line search {one['instructions']} ({other['instructions']})" in text
    ways = [
        made[plant][what] for what in ("iteration", "sums as written") for plant in ("plain", "evaluation")
    ]
    plain, evaluation, *before = (way["instructions"] for way in ways)
    assert f"Of an iteration's {plain} ({evaluation:,} on the evaluation plant) the count" in text
    saved = [1 - now / then for now, then in zip((plain, evaluation), before, strict=True)]
    assert f"saves {100 * min(saved):.0f} to {100 * max(saved):.0f}% of an iteration's instructions" in text
    steps = [made[plant]["physics step"]["loop"] for plant in ("plain", "evaluation")]
    assert f"A physics step of a Go1 is {steps[0]:,} and {steps[1]:,} instructions" in text
    assert f"is {16 * steps[0] / 1024:.0f} to {16 * steps[1] / 1024:.0f} KB" in text


def test_warps_never_wait_for_some_that_do_not_come() -> None:
    p = Program(chains=4, slots=1)
    wanted = p.variable("wanted") > 0.5
    with p.while_any(wanted, 20, together=True):
        p.let("env", {"wanted": 0.0})
    with (
        pytest.raises(AssertionError, match="would wait"),
        p.when_any(wanted),
        p.while_any(wanted, 20, together=True),
    ):
        p.let("env", {"wanted": 0.0})


def test_what_fetching_compares_is_what_it_says(tmp_path: Path) -> None:
    """As the engine is, with the one line that `apart` replaces; and with sums as they are written."""
    texts = []
    for as_written in (False, True):
        with sums_as_written() if as_written else nullcontext():
            engine = Lanes(robot("go1"), PLANTS["plain"], 8, threads=1)
        engine.close()
        texts.append(engine.cuda_text)
    assert [text.count(TOGETHER[0]) for text in texts] == [1, 1]
    assert all(text.count("TOGETHER(wanted)") == 1 for text in texts)
    assert texts[0] != texts[1]
    if ARCHITECTURE in wp.get_cuda_supported_archs():
        sizes = []
        for length in (512, 1024):
            module = make_loop(loop_source(length)).module
            (made,) = wp.compile_aot_module(module, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=False)
            sizes.append(made.stat().st_size)
        assert sizes[1] - sizes[0] == pytest.approx(512 * 16, abs=256), "no instruction is left out or added"
