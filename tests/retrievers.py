"""Retrievers of tables of systems, whose keywords are of the system and of the retriever."""

from dataclasses import replace

from graph_retrievers import Retriever, read_system
from graph_retrievers.arguments import keywords_of
from graph_retrievers.systems.system import System, every_system

FUSED_SPREADING = "fused(systems=['spreading', 'vector'])"
FUSED_FASTINSIGHT = "fused(systems=['fastinsight', 'hybrid'])"

# Every system as it is by default, and some without a part, or with one more.
EVERY = [
    *every_system(),
    *(FUSED_FASTINSIGHT, "spreading(gate='uniform')", FUSED_SPREADING),
    *("mor(structure=False, rerank=False)", "mor(matches=0, rerank=False)", "mor(rerank=False)"),
]
SHARED = keywords_of(Retriever.__init__)


def on(index, kind, **given):
    """Return a retriever on an index, by a system, its class or its text, by an operator or a function.

    `given` are parameters of the system and keywords of every retriever.
    """
    own = {name: given.pop(name) for name in given.keys() - SHARED}
    if isinstance(kind, type) and issubclass(kind, System):
        kind = kind(**own)
    elif own:
        kind = replace(read_system(kind), **own)
    return Retriever(index, kind, **given)
