"""Work is shared out whole, to whoever is free, and what goes wrong is not lost."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest
import torch
import warp as wp
from hypothesis import given
from hypothesis import strategies as st

from surefoot.compute.threads import ThreadTeam, chunk_sizes
from surefoot.compute.warp.launch import Launch


@given(st.integers(1, 5000), st.integers(1, 64))
def test_chunks_are_all_of_it_and_small_ones_come_last(count: int, threads: int) -> None:
    sizes = chunk_sizes(count, min(threads, count))
    assert sum(sizes) == count
    assert min(sizes) >= 1
    assert len(sizes) >= min(threads, count), "nobody is left without work"
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_chunk_is_done_once(threads: int) -> None:
    team, done = ThreadTeam(threads), []
    for round_number in range(50):
        done.clear()
        team([partial(done.append, (round_number, k)) for k in range(13)])
        assert sorted(done) == [(round_number, k) for k in range(13)]
    team.close()


def test_who_is_free_takes_the_next_chunk() -> None:
    """One long chunk does not keep the short ones waiting behind it."""
    team, by = ThreadTeam(2), {}

    def chunk(k: int) -> None:
        by[k] = threading.get_ident()
        time.sleep(0.2 if k == 0 else 0.001)

    team([partial(chunk, k) for k in range(20)])
    team.close()
    assert all(by[k] != by[0] for k in range(1, 20))


@pytest.mark.parametrize("culprit", [0, 1, 7])
def test_what_a_chunk_raises_is_raised_where_the_work_was_asked_for(culprit: int) -> None:
    team, done = ThreadTeam(3), []

    def chunk(k: int) -> None:
        time.sleep(0.001)
        if k == culprit:
            raise ZeroDivisionError(str(k))
        done.append(k)

    with pytest.raises(ZeroDivisionError, match=str(culprit)):
        team([partial(chunk, k) for k in range(8)])
    done.clear()
    team([partial(chunk, 100 + k) for k in range(8)])
    assert sorted(done) == list(range(100, 108)), "and the team goes on working"
    team.close()


def test_threads_leave_when_a_team_is_closed_or_forgotten() -> None:
    before = threading.active_count()
    team = ThreadTeam(4)
    assert threading.active_count() == before + 3
    team.close()
    assert threading.active_count() == before
    team([])
    team.close()  # once more does no harm
    team = ThreadTeam(3)
    workers = [worker.thread for worker in team._workers]
    del team
    for thread in workers:
        thread.join(timeout=5.0)
        assert not thread.is_alive()


@pytest.mark.parametrize("flush", [True, False])
def test_all_of_a_team_round_alike(flush: bool) -> None:
    """Else results would depend on who took which chunk."""
    torch.set_flush_denormal(flush)
    team, by = ThreadTeam(3), {}

    def chunk() -> None:
        by[threading.get_ident()] = float(torch.tensor([1e-39]) * 0.5) == 0.0
        time.sleep(0.05)  # so that everybody takes one

    team([chunk] * 3)
    team.close()
    assert list(by.values()) == [flush] * 3


@wp.kernel(enable_backward=False)
def fill(first: int, by: float, x: wp.array(dtype=wp.float32), y: wp.array2d(dtype=wp.float32)):
    i = first + wp.tid()
    y[0, i] = y[1, i] + by * x[i]


def test_a_launch_does_what_warps_own_does() -> None:
    x = torch.arange(10.0)
    ours, theirs = torch.ones(2, 10), torch.ones(2, 10)
    launch = Launch(fill, 6, [2, 0.5, x, ours], torch.device("cpu"))
    for _ in range(2):  # repeated, with other contents in the same memory
        launch()
        arrays = [wp.from_torch(x), wp.from_torch(theirs)]
        wp.launch(fill, dim=6, inputs=[2, 0.5, *arrays], device="cpu")
        assert torch.equal(ours, theirs)
        assert not torch.equal(ours[0], ours[1])
        x += 3.0
