"""A panel is described: what is in it, in which half, and what of it training never sees."""

from __future__ import annotations

import json

import pytest

from surefoot.contract import load_panel, panel_names
from tiny import surefoot


@pytest.mark.parametrize("width", ["80", "200"])
def test_names_and_digests_are_whole(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert surefoot("panel", "show") == 0
    listed = capsys.readouterr().out.split()
    for name in panel_names():
        assert name in listed
        assert load_panel(name).digest[:12] in listed


@pytest.mark.parametrize("name", panel_names())
def test_one_panel_is_described(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert surefoot("panel", "show", name) == 0
    said = capsys.readouterr().out
    panel = load_panel(name)
    assert panel.digest in said
    for word in (
        "commands",
        "pushes",
        "friction",
        "payload",
        "selection",
        "confirmation",
        "unseen in training",
    ):
        assert word in said
    assert surefoot("panel", "show", name, "--json") == 0
    (facts,) = json.loads(capsys.readouterr().out)
    for condition in facts["counts"].values():
        for half in ("selection", "confirmation"):
            assert sum(value[half] for value in condition.values()) == len(panel.select(half))
    terrain = {s.terrain.cls for s in panel.scenarios}
    assert set(facts["counts"].get("terrain", {"flat": 0})) == terrain
    assert ("curbs and stones" in " ".join(facts["unseen_in_training"])) == ("stones" in terrain)
