"""Build the packages and try them as their users get them.

    python tools/packages.py [FOLDER]

Builds sdists and wheels of graph-retrievers and of the two names for the frameworks into FOLDER (default `dist`) and checks their
metadata. Installs the wheels into a new environment, runs the demo and the command there, outside of the checkout. For each other
Python from 3.11 on that is at hand, the wheel is installed without its dependencies, compiled and imported. Needs build and twine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("graph-retrievers", "langchain-graph-retrievers", "llama-index-retrievers-graph")
MODULES = ("graph_retrievers", "langchain_graph_retrievers", "llama_graph_retrievers")
MINORS = (11, 12, 13, 14)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command without the checkout on its path; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> None:
    """Build an sdist of each package, a wheel from it, and check both."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in (ROOT, *(ROOT / "packages" / name for name in NAMES[1:])):
        run(sys.executable, "-m", "build", "--outdir", folder, source)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()))


def wheel(folder: Path, name: str) -> Path:
    """Return the wheel of a package."""
    return next(folder.glob(f"{name.replace('-', '_')}-*.whl"))


def check_files(folder: Path) -> None:
    """Every module and typed file of the checkout is in the wheel, and nothing else but licences; the sdist has the pages too."""
    tops = {"graph_retrievers": ROOT / "shared" / "graph_retrievers"} | {name: ROOT / name for name in MODULES[1:]}
    # What git ignores is not packed, such as compiled modules.
    listed = run("git", "ls-files", *tops.values()).splitlines()
    wanted = {re.sub(r"^shared/", "", path) for path in listed}
    held = set(zipfile.ZipFile(wheel(folder, NAMES[0])).namelist())
    packed = {path for path in held if ".dist-info/" not in path}
    if packed != wanted:
        raise SystemExit(f"the wheel lacks {sorted(wanted - packed)} and has {sorted(packed - wanted)} besides")
    if not any(path.endswith("licenses/LICENSE") for path in held):
        raise SystemExit("the wheel has no licence")
    with tarfile.open(next(folder.glob("graph_retrievers-*.tar.gz"))) as sdist:
        sources = {path.partition("/")[2] for path in sdist.getnames()}
    if missing := {"README.md", "LICENSE", "CHANGELOG.md", "docs/index.md", "constraints.txt"} - sources:
        raise SystemExit(f"the sdist lacks {sorted(missing)}")
    print(f"{len(packed)} files in the wheel, all of the checkout and no others")


def environment(python: str | Path, place: Path) -> Path:
    """Make a virtual environment; return its folder of programs."""
    run(python, "-m", "venv", place)
    return place / "bin"


def try_installed(folder: Path, place: Path) -> None:
    """Install as users do, by the names for the frameworks, and run the demo and the command."""
    programs = environment(sys.executable, place / "env")
    wheels = [wheel(folder, name) for name in NAMES]
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt")
    run(*pip, f"{wheels[0]}[offline]", *wheels[1:])
    shutil.copytree(ROOT / "examples", place / "examples")
    where = run(programs / "python", "-c", "import graph_retrievers; print(graph_retrievers.__file__)", cwd=place)
    if str(place) not in where:
        raise SystemExit(f"the package that was tried is another one: {where}")
    if "<- the answer" not in run(programs / "python", place / "examples" / "demo.py", cwd=place):
        raise SystemExit("the demo did not find the answer")
    run(programs / "graph-retrievers", "taxonomy", cwd=place)
    print(f"Python {sys.version_info.major}.{sys.version_info.minor}: installed, demo and command run")


def try_other(minor: int, folder: Path, place: Path) -> None:
    """Compile and import the wheel with another Python, without what it depends on."""
    # The one that comes first on the path may be a shim of pyenv for a Python that is not chosen.
    places = [shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")]
    found = (path for path in places if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode)
    if (python := next(found, None)) is None:
        print(f"Python 3.{minor}: not at hand")
        return
    programs = environment(python, place / f"env{minor}")
    run(programs / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", wheel(folder, NAMES[0]))
    packages = run(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    run(programs / "python", "-W", "error", "-m", "compileall", "-q", *(Path(packages) / name for name in MODULES))
    run(programs / "python", "-W", "error", "-c", "import graph_retrievers; print(graph_retrievers.__version__)", cwd=place)
    print(f"Python 3.{minor}: compiled and imported")


def main() -> None:
    """Build, check, and try in new environments."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    build(folder)
    check_files(folder)
    with tempfile.TemporaryDirectory() as place:
        try_installed(folder, Path(place))
        for minor in MINORS:
            if minor != sys.version_info.minor:
                try_other(minor, folder, Path(place))


if __name__ == "__main__":
    main()
