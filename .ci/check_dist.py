"""What a wheel and an sdist hold and must not: ``python .ci/check_dist.py dist``, from the root of the repository."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

#: Folders and endings that no release holds: caches of Python, of numba, of tools.
CACHES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".venv", "_build"}
ENDINGS = {".pyc", ".pyo", ".nbi", ".nbc"}
#: What setuptools adds to an sdist.
ADDED = {"PKG-INFO", "setup.cfg"}


def tracked(*folders: str) -> set[str]:
    """Files of these folders, or all, that the repository has: they ship, and nothing else."""
    found = subprocess.run(["git", "ls-files", *folders], capture_output=True, text=True, check=True).stdout
    return set(found.split("\n")) - {"", ".gitignore"}


def wrong_in_wheel(names: set[str], package: set[str]) -> list[str]:
    """What a wheel lacks or has too much."""
    own = {name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    licences = [name for name in names - own if name.endswith("/LICENSE")]
    return [
        *(f"not in the wheel: {name}" for name in sorted(package - own)),
        *(f"in the wheel and not of the package: {name}" for name in sorted(own - package)),
        *cached(names),
        *([] if licences else ["not in the wheel: LICENSE"]),
    ]


def wrong_in_sdist(names: set[str], repository: set[str]) -> list[str]:
    """What an sdist lacks or has too much: tests, documentation and all; names without the folder that all lie in."""
    own = {name for name in names - ADDED if not PurePosixPath(name).parts[0].endswith(".egg-info")}
    return [
        *(f"not in the sdist: {name}" for name in sorted(repository - names)),
        *(f"in the sdist and not of the repository: {name}" for name in sorted(own - repository)),
        *cached(names),
    ]


def cached(names: set[str]) -> list[str]:
    """Caches among names."""
    paths = [PurePosixPath(name) for name in sorted(names)]
    return [f"a cache: {path}" for path in paths if CACHES & {*path.parts} or path.suffix in ENDINGS]


def main() -> None:
    folder = Path(sys.argv[1])
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if not name.endswith("/")}
    with tarfile.open(sdist) as archive:
        in_sdist = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    wrong = [*wrong_in_wheel(in_wheel, tracked("sksvi")), *wrong_in_sdist(in_sdist, tracked())]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{wheel.name}: {len(in_wheel)} files, {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{sdist.name}: {len(in_sdist)} files, {sdist.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
