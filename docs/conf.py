"""How Sphinx makes the site: every document of this folder, the reference from the code, strict, no network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import surefoot  # noqa: E402

project = "Surefoot"
author = "the authors of Surefoot"
release = version = surefoot.__version__
html_title = f"Surefoot {release}"
html_theme = "furo"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_show_copyright = False
extensions = ["myst_parser"]
exclude_patterns = ["outputs/**"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nitpicky = True


def with_reference(app: Any, name: str, source: list[str]) -> None:
    """Puts what the code says where a page has `<!-- made: what -->`."""
    import made

    source[0] = made.filled(source[0])


def setup(app: Any) -> None:
    app.connect("source-read", with_reference)
