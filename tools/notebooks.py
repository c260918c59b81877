"""Run the notebooks of examples/notebooks and save what they print and draw: ``python tools/notebooks.py [NAME ...]``.

The one on a database needs a server, at ``NEO4J_URI``. Times, counters and what a machine says of itself are not saved.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

__all__ = ["CellExecutionError", "plain", "run", "texts"]

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run in its folder; CellExecutionError is raised if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    return plain(notebook)


def plain(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook without what differs from run to run and from machine to machine."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Return outputs, with what was printed piece by piece as one text and without warnings."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                continue
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
                continue
        else:
            output.metadata = nbformat.from_dict({})
            # What stands for a picture in a terminal.
            if "image/png" in output.data:
                output.data.pop("text/plain", None)
        if "execution_count" in output:
            output.execution_count = None
        kept.append(output)
    return kept


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what each code cell prints and shows as text."""
    return ["".join(map(_text, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: nbformat.NotebookNode) -> str:
    return str(output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", ""))


def main(names: list[str]) -> None:
    """Run and save notebooks, all of them by default."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(run(path), path)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
