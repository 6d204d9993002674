"""Panels as files: what is run is what was frozen, or it is refused.

A file of version 1 holds its scenarios. One of version 2 holds the recipe that they are drawn by and the
digest of all of them; they are drawn again as it is read, and must have that digest.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from surefoot.contract.drawn_panel import DrawnPanel, draw_panel
from surefoot.contract.errors import SurefootError, unknown
from surefoot.contract.panel import Panel


def dump_panel(panel: Panel) -> str:
    """Writes the file's text: the digest, then one scenario per line, or the recipe of version 2."""
    body = panel.model_dump(mode="json")
    if isinstance(panel, DrawnPanel):
        recipe = json.dumps({k: v for k, v in body.items() if k != "scenarios"}, indent=1)
        count = len(panel.select("confirmation"))
        return f'{{"digest":"{panel.digest}",\n"confirmation":{count},\n"panel":{recipe}}}\n'
    scenarios = ",\n".join(json.dumps(s, separators=(",", ":")) for s in body.pop("scenarios"))
    head = json.dumps(body, separators=(",", ":"))
    return f'{{"digest":"{panel.digest}",\n"panel":{head[:-1]},"scenarios":[\n{scenarios}\n]}}}}\n'


def parse_panel(text: str, where: str) -> Panel:
    try:
        raw = json.loads(text)
        panel = _drawn(raw) if _version(raw["panel"]) == 2 else Panel.model_validate(raw["panel"])
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(("panel", *(str(p) for p in first["loc"])))
        raise SurefootError(
            f"{where} is not a panel: field {field}: {first['msg']}; regenerate it."
        ) from error
    except SurefootError as error:  # of a field's own check, which does not know the file
        raise SurefootError(f"{where} is not a panel: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SurefootError(
            f"{where} is not a panel file ({error}); write one with `surefoot panel make`."
        ) from error
    if raw.get("digest") != panel.digest:
        raise SurefootError(
            f"{where} was changed after it was frozen: its digest does not match; regenerate it."
        )
    return panel


def _version(panel: Any) -> int:
    return panel.get("schema_version", 1) if isinstance(panel, dict) else 1


def _drawn(raw: dict[str, Any]) -> DrawnPanel:
    """Draws the scenarios that a file of version 2 is the recipe of."""
    empty = DrawnPanel.model_validate(raw["panel"] | {"scenarios": ()})
    name = empty.name.removesuffix(f"+{raw['confirmation']}scenarios")
    drawn = draw_panel(name, empty.draw, empty.seeds.root, int(raw["confirmation"]))
    # what was drawn follows from recipe, root and length; all else that the file says must agree with it
    return drawn.model_copy(update={k: getattr(empty, k) for k in ("name", "episode_s", "seeds")})


def panel_names() -> list[str]:
    return sorted(
        p.name.removesuffix(".json")
        for p in files("surefoot").joinpath("panels").iterdir()
        if p.name.endswith(".json")
    )


TAGS = re.compile(r"(\+root(?P<root>\d+))?(\+(?P<count>\d+)scenarios)?")


def load_panel(name: str) -> Panel:
    """Loads a shipped panel by name, or a panel file by its path. A shipped one of version 2 may be asked for
    with another root seed or length: walk-flat-v2+root7+512scenarios."""
    if name.endswith(".json"):
        path = Path(name)
        if not path.is_file():
            raise SurefootError(f"There is no panel file {name}; shipped panels: {', '.join(panel_names())}.")
        return parse_panel(path.read_text(encoding="utf-8", errors="replace"), name)
    base, plus, tags = name.partition("+")
    asked = TAGS.fullmatch(plus + tags)
    if base not in panel_names() or asked is None:
        raise unknown("panel", name, panel_names())
    return _asked(_shipped(base), asked["root"], asked["count"])


@lru_cache(maxsize=16)
def _shipped(name: str) -> Panel:
    text = files("surefoot").joinpath("panels", f"{name}.json").read_text("utf-8")
    return parse_panel(text, f"panel {name}")


def _asked(panel: Panel, root: str | None, count: str | None) -> Panel:
    if root is not None:
        panel = with_root(panel, int(root))
    return panel if count is None else panel.with_scenarios(int(count))


def with_root(panel: Panel, root: int) -> DrawnPanel:
    """Returns a panel of the same recipe, drawn by another root seed: nobody can have chosen on it before its
    root was known, and anybody can draw it again."""
    if not isinstance(panel, DrawnPanel):
        raise SurefootError(f"Panel {panel.name} is a list, not a draw: it has no other root; use one of v2.")
    return panel.with_root(root, f"+root{root}")
