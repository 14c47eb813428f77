"""Two equal allocators, the calls made of them, and what they show.

The *subject* sees every call; its *twin* sees the granted ones alone, and one sequence at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pagedsim.protocols import Usage
from pagedsim.testing.allocator_laws import Laws
from pagedsim.testing.laws import BrokenLaw, Judge, Over
from pagedsim.testing.sequences import Library, Seq


class Call(NamedTuple):
    """A granted call, and what the sequence knew and had stored then."""

    kind: str
    seq: Seq
    tokens: int
    whole: int
    spare: int
    known: int
    computed: int
    child: Seq | None = None


class Calls:
    """One history: what was done to a subject and to its twin, and what must hold of it."""

    def __init__(self, make: Callable[[], Any], judge: Judge) -> None:
        self.make, self.judge = make, judge
        self.log = [f"allocator = {make}"]
        self.library = Library()
        self.calls: list[Call] = []  # all that was granted
        self.waiting: list[Seq] = []
        self.recent: list[Seq] = []
        self.count = 0
        self.subject, self.twin = make(), make()
        self.laws = Laws(judge, self.subject, self.log)
        self.stored = self.laws.model.stored
        self.hold("empty", self.subject.usage() == Usage(0), f"new: {self.subject.usage()}")

    def hold(self, law: str, good: object, said: Any) -> None:
        self.judge.hold(law, good, said, self.log)

    def call(self, allocator: Any, name: str, *args: Any, said: str = "", **more: Any) -> Any:
        """Call a method. Whatever it raises breaks a law."""
        if said:
            self.judge.calls += 1
            self.log.append(said)
        try:
            answer = getattr(allocator, name)(*args, **more)
        except Exception as error:
            self.hold("calls", False, f"{name} raised {type(error).__name__}: {error}")
            raise AssertionError from error
        if name in ("admit", "grow"):
            self.hold("calls", answer in (True, False), lambda: f"{name} answered {answer!r}")
        if said and answer is not None:
            self.log[-1] += f" -> {answer}"
        return answer

    def look(self, look: Callable[..., Any], *args: Any) -> Any:
        """Look at its state. Whatever that raises breaks a law."""
        try:
            return look(*args)
        except (BrokenLaw, Over):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}, from a look at its state"
            self.hold("calls", False, said)
            raise AssertionError from error

    def seen(self) -> dict[str, Any]:
        """What the subject shows."""
        found: dict[str, Any] = self.look(self.laws.seen, self.subject, self.waiting)
        return found

    def looks_like_its_twin(self, law: str = "determinism") -> None:
        twin = self.look(self.laws.seen, self.twin, self.waiting)
        self.laws.same(law, twin, self.seen(), "its twin shows other than it does")

    def holds(self) -> None:
        """All that must hold between two calls."""
        self.look(self.laws.between_calls)


__all__ = ["Call", "Calls"]
