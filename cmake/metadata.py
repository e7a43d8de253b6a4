"""The package's metadata that is not the same for every build: pyproject.toml names this file to scikit-build-core.

A wheel works with the minor version of PyTorch that it was built for and with no other. So its dependency says so, and
so does its version, `0.1.0+torch2.13`: a wheel that lies in a folder or a cache is never taken for another one. A wheel
that is made from a source distribution keeps its version, which installers demand, and has the dependency alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "cmake"))

import pytorch  # noqa: E402

_RELATIVE = r"\((?!https?:|#)[^)]*\)"


class Provider:
    """One for each run of the build backend."""

    def __init__(self) -> None:
        self._is_sdist = False

    def build_state(self, state: str) -> None:
        self._is_sdist = state == "sdist"

    def dynamic_wheel(self, settings: dict[str, Any]) -> dict[str, bool]:
        return {"dependencies": True}

    def dynamic_metadata(self, settings: dict[str, Any], project: dict[str, Any]) -> dict[str, Any]:
        plain = own_version()
        readme = {"content-type": "text/markdown", "text": package_page((ROOT / "README.md").read_text("utf-8"))}
        if self._is_sdist:
            oldest = ".".join(map(str, pytorch.OLDEST))
            return {"version": plain, "dependencies": [f"torch>={oldest}"], "readme": readme}
        minor = pytorch.find().minor
        version = plain if (ROOT / "PKG-INFO").exists() else f"{plain}+torch{minor}"
        return {"version": version, "dependencies": [f"torch=={minor}.*"], "readme": readme}


def own_version() -> str:
    """Has one home, the Python package."""
    text = (ROOT / "python/tconv3d/__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError('python/tconv3d/__init__.py has no line __version__ = "..."')
    return found[1]


def package_page(readme: str) -> str:
    """The README without what only the repository has: images, files that it links to, and marks for our tools."""
    readme = re.sub(r"^<!--.*?-->\n|<!--.*?-->", "", readme, flags=re.DOTALL | re.MULTILINE)
    readme = re.sub(rf"^!\[[^\]]*\]{_RELATIVE}\n\n?", "", readme, flags=re.MULTILINE)
    readme = re.sub(rf"!\[[^\]]*\]{_RELATIVE}", "", readme)
    return re.sub(rf"(?<!!)\[([^\]]*)\]{_RELATIVE}", r"\1", readme)
