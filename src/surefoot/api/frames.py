"""Tables for analysis: a pandas DataFrame where pandas is installed, else a pyarrow Table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Frame = Any
"""A `pandas.DataFrame`, or a `pyarrow.Table` where pandas is not installed."""


def frame(columns: Mapping[str, Sequence[Any] | np.ndarray]) -> Frame:
    """Makes a table of columns of equal length."""
    try:
        import pandas as pd
    except ImportError:
        return pa.table(dict(columns))
    return pd.DataFrame(dict(columns))


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Frame:
    """Makes a table of rows; what a row does not have is missing in it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return frame({name: [row.get(name) for row in rows] for name in names})
