"""Constructor arguments by name, as scikit-learn's tools read and set them."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from hpme.errors import InputError

Self = TypeVar("Self", bound="Configured")


class Configured:
    """Objects whose constructor stores its keyword arguments as given, under their own names."""

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of all constructor arguments, those passed on to base classes included."""
        return list(cls._annotations())

    @classmethod
    def _annotations(cls) -> dict[str, str]:
        """What the signatures say about all constructor arguments, as text."""
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if "__init__" in base.__dict__ and issubclass(base, Configured):
                parameters = inspect.signature(base.__init__).parameters.values()
                options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
                found.update({p.name: _spelled(p.annotation) for p in options})
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name; ``sklearn.base.clone`` makes an unfitted copy of them.

        Args:
            deep: Not used: no argument is an estimator itself.
        """
        return {name: getattr(self, name) for name in self.option_names()}

    def config(self) -> dict[str, Any]:
        """Constructor arguments of this explainer."""
        return self.get_params()

    def set_params(self: Self, **params: Any) -> Self:
        """Sets constructor arguments; what was learned with others is forgotten.

        Raises:
            InputError: If there is no such argument, or its value is refused.
        """
        valid = self.option_names()
        for name in params:
            if name not in valid:
                raise InputError(
                    f"{type(self).__name__} has no argument '{name}'; valid: {', '.join(valid)}"
                )
        if params:
            options = {**self.get_params(), **params}
            type(self)(**options)  # refuses before anything here has changed
            self.__init__(**options)  # type: ignore[misc]
        return self


def _spelled(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
