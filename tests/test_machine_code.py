"""Claims about stride's machine code: it is made without a GPU, and counted as the benchmark says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import warp as wp

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from engines import GROUNDS
from machine_code import ARCHITECTURE, Listing, compiled, figures
from surefoot.terrain import Atlas

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LISTING = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_9:
        /*0010*/                   FADD R2, R2, R3 ;
.L_x_5:
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
        /*00a0*/               @P2 BRA `(.L_x_5) ;
        /*00b0*/               @P4 BRA `(.L_x_9) ;
        /*00c0*/                   EXIT ;
"""


def test_the_shortest_way_takes_no_branch_that_it_need_not() -> None:
    listing = Listing.read(LISTING)
    assert listing.loops() == [(4, 5), (8, 9), (2, 10), (1, 11)]
    assert listing.shortest(2, 10) == [2, 3, 7, 8, 9, 10]
    assert figures(listing) == {
        "turn of the line search": {"instructions": 2, "shuffles": 1, "loop": 2},
        "iteration": {"instructions": 6, "shuffles": 3, "loop": 9},
        "physics step": {"instructions": 8, "shuffles": 3, "loop": 11},
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
    text = " ".join((BENCHMARKS.parent / "docs" / "engines.md").read_text().split())
    counted = json.loads((BENCHMARKS / "flops.json").read_text())["plants"]
    assert all(made[plant]["counted"] == counted[plant]["lane"] for plant in made), "read it again"
    one, other = (made[plant]["iteration"] for plant in ("plain", "evaluation"))
    assert f"is {one['instructions']:,} instructions of an H200 ({other['instructions']:,} on the" in text
    assert f"{one['shuffles']} of them shuffles" in text
    one, other = (made[plant]["turn of the line search"] for plant in ("plain", "evaluation"))
    assert f"and a turn of the line search {one['instructions']} ({other['instructions']})" in text
