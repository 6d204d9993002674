"""Python's operators by the names of torch's functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self


class Operators(ABC):
    """What `a + b` and the like mean, for a class that knows torch's functions by name."""

    __slots__ = ()

    @abstractmethod
    def _apply(self, name: str, *args: Any) -> Self:
        """Returns what torch's function `name` makes of `args`."""

    def __add__(self, o: Any) -> Self:
        return self._apply("add", self, o)

    def __radd__(self, o: Any) -> Self:
        return self._apply("add", o, self)

    def __sub__(self, o: Any) -> Self:
        return self._apply("sub", self, o)

    def __rsub__(self, o: Any) -> Self:
        return self._apply("sub", o, self)

    def __mul__(self, o: Any) -> Self:
        return self._apply("mul", self, o)

    def __rmul__(self, o: Any) -> Self:
        return self._apply("mul", o, self)

    def __truediv__(self, o: Any) -> Self:
        return self._apply("div", self, o)

    def __rtruediv__(self, o: Any) -> Self:
        return self._apply("div", o, self)

    def __mod__(self, o: Any) -> Self:
        return self._apply("remainder", self, o)

    def __pow__(self, o: Any) -> Self:
        return self._apply("pow", self, o)

    def __rmod__(self, o: Any) -> Self:
        return self._apply("remainder", o, self)

    def __rpow__(self, o: Any) -> Self:
        return self._apply("pow", o, self)

    def __matmul__(self, o: Any) -> Self:
        return self._apply("matmul", self, o)

    def __rmatmul__(self, o: Any) -> Self:
        return self._apply("matmul", o, self)

    def __xor__(self, o: Any) -> Self:
        return self._apply("logical_xor", self, o)

    __rxor__ = __xor__

    def __neg__(self) -> Self:
        return self._apply("neg", self)

    def __abs__(self) -> Self:
        return self._apply("abs", self)

    def __lt__(self, o: Any) -> Self:
        return self._apply("lt", self, o)

    def __le__(self, o: Any) -> Self:
        return self._apply("le", self, o)

    def __gt__(self, o: Any) -> Self:
        return self._apply("gt", self, o)

    def __ge__(self, o: Any) -> Self:
        return self._apply("ge", self, o)

    def __eq__(self, o: Any) -> Self:  # type: ignore[override]
        return self._apply("eq", self, o)

    def __ne__(self, o: Any) -> Self:  # type: ignore[override]
        return self._apply("ne", self, o)

    def __and__(self, o: Any) -> Self:
        return self._apply("logical_and", self, o)

    __rand__ = __and__

    def __or__(self, o: Any) -> Self:
        return self._apply("logical_or", self, o)

    __ror__ = __or__

    def __invert__(self) -> Self:
        return self._apply("logical_not", self)

    __hash__ = None  # type: ignore[assignment]
