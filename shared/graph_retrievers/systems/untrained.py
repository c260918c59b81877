"""What a retriever does while a part of it is not trained."""

from __future__ import annotations

from dataclasses import dataclass

from graph_retrievers.errors import InvalidArgumentError


@dataclass(frozen=True)
class Untrained:
    """A part of a system that is not trained, and what ranks instead of it.

    It is for systems that rank well-defined without the part: they tell it in :meth:`Retriever.lacks` and in the notes of hits.
    Where scores before training mean nothing, :func:`refuse_untrained` says so instead.
    """

    part: str
    instead: str

    @property
    def need(self) -> str:
        """The part, and how to pass it."""
        return f"a trained {self.part} (pass checkpoint=)"

    @property
    def note(self) -> str:
        """The note on every result."""
        return f"the {self.part} is not trained (pass checkpoint=): {self.instead}"


def refuse_untrained(system: str, part: str, command: str) -> None:
    """Raise InvalidArgumentError: `part`, such as the settings of a network, would rank at random; `command` trains it."""
    raise InvalidArgumentError(
        f"{system} got {part} and no trained weights, and would rank at random. Train it with `graph-retrievers {command}`, and "
        "pass checkpoint=, the folder that this writes."
    )
