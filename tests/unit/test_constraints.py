"""constraints.txt: the versions the tests ran with, but where other packages that people install beside this one need more room."""

from pathlib import Path

from packaging.requirements import Requirement

CONSTRAINTS = {
    requirement.name: requirement.specifier
    for line in (Path(__file__).parents[2] / "constraints.txt").read_text().splitlines()
    if (requirement := Requirement(line) if line and not line.startswith("#") else None)
}


def test_the_file_readers_of_llama_index_find_a_pandas():
    # llama-index-readers-file 0.7.0 asks for pandas>=2.0.0,<3; the tests ran with 3.1.1.
    assert "2.3.3" in CONSTRAINTS["pandas"] and "3.1.1" in CONSTRAINTS["pandas"]


def test_all_others_are_one_version():
    loose = [name for name, specifier in CONSTRAINTS.items() if [part.operator for part in specifier] != ["=="]]
    assert loose == ["pandas"] and "torch" in CONSTRAINTS
