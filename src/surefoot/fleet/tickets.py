"""When a ticket may be issued: only if what it brings will be young enough when its turn comes."""

from __future__ import annotations


def may_issue(opened: int, queued: int, actors: int, lag: int, learning: bool) -> bool:
    """Returns whether one more fragment may be asked for, with the newest policy that was published, while
    `opened` are on their way and `queued` wait to be learned from.

    An update takes one fragment per actor, oldest first, so this one has its turn after
    (opened + queued) // actors others. While the learner waits, the next update begins with the newest
    policy; while it is `learning`, the next one begins with the version that it is about to publish, and
    that one counts. The fragment is then at most `lag` versions old unless others overtake it, which those
    of equally fast actors do not.
    """
    return opened + queued < actors * (lag + 1 - learning)
