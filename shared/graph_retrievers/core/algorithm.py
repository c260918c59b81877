"""What an algorithm is written in, in one place to import it from; functions of candidates and requests are in their modules."""

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question

__all__ = ["Algorithm", "Candidates", "Chains", "Facts", "Operator", "OperatorKind", "Pipeline", "Question"]
