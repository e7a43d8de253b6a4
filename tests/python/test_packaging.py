"""What makes packages: the metadata of wheels and source distributions, Dockerfiles and the citation."""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tconv3d
from tconv3d import __main__ as command_line
from tconv3d import _library

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """cmake/metadata.py."""
    monkeypatch.syspath_prepend(str(ROOT / "cmake"))
    for name in ("metadata", "pytorch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("metadata")


@pytest.fixture
def some_pytorch(metadata: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.pytorch.PyTorch("python", "/somewhere/torch", "2.13.1+cu130", "1")
    monkeypatch.setattr(metadata.pytorch, "find", lambda: found)


def made(metadata: ModuleType, state: str) -> dict:
    provider = metadata.Provider()
    provider.build_state(state)
    return provider.dynamic_metadata({}, {})


@pytest.mark.usefixtures("some_pytorch")
@pytest.mark.parametrize("state", ["wheel", "editable", "metadata_wheel"])
def test_a_wheel_names_its_pytorch(metadata: ModuleType, state: str) -> None:
    wheel = made(metadata, state)
    assert wheel["version"] == f"{tconv3d.__version__}+torch2.13"
    assert wheel["dependencies"] == ["torch==2.13.*"]


def test_an_editable_installation_has_its_library_apart_from_its_modules(tmp_path: Path) -> None:
    sources, installed = tmp_path / "sources", tmp_path / "installed"
    for folder in (sources, installed):
        folder.mkdir()
    beside = Path(_library.__file__).with_name("libtconv3d_torch.so")
    assert _library.find([str(installed), str(sources)]) == beside
    (installed / beside.name).touch()
    assert _library.find([str(sources), str(installed)]) == installed / beside.name


def test_a_source_distribution_takes_every_pytorch(metadata: ModuleType) -> None:
    sdist = made(metadata, "sdist")
    assert sdist["version"] == tconv3d.__version__
    assert sdist["dependencies"] == ["torch>=2.1"]


@pytest.mark.usefixtures("some_pytorch")
def test_a_wheel_of_a_source_distribution_keeps_its_version(
    metadata: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pip refuses a wheel whose version differs from the one that it asked for."""
    for name in ("README.md", "python/tconv3d/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\n")
    monkeypatch.setattr(metadata, "ROOT", tmp_path)
    wheel = made(metadata, "wheel")
    assert wheel["version"] == tconv3d.__version__
    assert wheel["dependencies"] == ["torch==2.13.*"]


def test_a_pytorch_that_is_too_old_is_refused(metadata: ModuleType) -> None:
    old = metadata.pytorch.PyTorch("python", "/somewhere/torch", "2.0.1", "0")
    with pytest.raises(
        metadata.pytorch.NotFoundError, match=r"PyTorch 2\.0\.1 found in .*; tconv3d needs 2\.1 or later"
    ):
        metadata.pytorch._require_known(old)


def test_pytorch_is_found_where_an_isolated_build_hides_it(
    metadata: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = made_up_python(tmp_path, '[ "$1" = -E ] && echo "/packages/torch;2.13.0;1" || exit 1')
    monkeypatch.setenv("TCONV3D_PYTHON", python)
    found = metadata.pytorch.find()
    assert (found.python, found.root, found.minor) == (f"{python} -E", "/packages/torch", "2.13")


def made_up_python(folder: Path, script: str) -> str:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return str(python)


def test_without_pytorch_every_candidate_is_named(
    metadata: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = made_up_python(tmp_path, "echo 'ModuleNotFoundError: No module named torch' >&2; exit 1")
    monkeypatch.setenv("TCONV3D_PYTHON", python)
    with pytest.raises(metadata.pytorch.NotFoundError, match=r"Tried:\n  .*python: ModuleNotFoundError: No module"):
        metadata.pytorch.find()


def test_the_package_page_has_only_what_it_can_show(metadata: ModuleType) -> None:
    page = metadata.package_page((ROOT / "README.md").read_text("utf-8"))
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert all(target.startswith(("https://", "http://", "#")) for target in targets)
    assert "<!--" not in page
    text = "see [a](docs/a.md), [b](https://b.org/)<!-- end -->\n![plot](docs/p.png)\n\n<!-- mark -->\nthe end\n"
    assert metadata.package_page(text) == "see a, [b](https://b.org/)\nthe end\n"


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {tconv3d.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def matrix() -> list[tuple[str, str]]:
    """The versions of PyTorch and Python that CI tries beside those of `make test`."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    return re.findall(r'^ +- \{ torch: "(.+)", python: "(.+)" \}$', workflow, flags=re.MULTILINE)


def test_ci_tries_the_oldest_and_the_newest_pytorch(metadata: ModuleType) -> None:
    versions = [tuple(map(int, torch.split("."))) for torch, _ in matrix()]
    claimed = re.findall(r"^\| (2\.\d+\.\d+)", (ROOT / "docs/support.md").read_text("utf-8"), flags=re.MULTILINE)
    assert versions[0][:2] == metadata.pytorch.OLDEST
    assert versions == sorted(versions)
    assert versions[-1] == max(tuple(map(int, version.split("."))) for version in claimed)
    assert {torch for torch, _ in matrix()} <= set(claimed)


def test_no_command_of_ci_is_redirected() -> None:
    """To a shell `pip install numpy<2` means to read the file 2."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    runs = re.findall(r"^ +- run: (.+)$", workflow, flags=re.MULTILINE)
    values = re.findall(r'\b(torch|python): "(.+?)"', workflow)
    assert runs
    assert values
    for run, (name, value) in itertools.product(runs, values):
        line = run.replace(f"${{{{ matrix.{name} }}}}", value)
        assert not {"<", ">"} & set(shlex.shlex(line, posix=True, punctuation_chars=True)), line


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", dockerfile.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line]


def commands(dockerfile: Path) -> list[list[str]]:
    """Those of its RUN instructions, with the build arguments filled in."""
    found = instructions(dockerfile)
    values = dict(text.split("=") for name, text in found if name == "ARG" and "=" in text)
    lines = [command for name, text in found if name == "RUN" for command in text.split("&&")]
    return [shlex.split(re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], line)) for line in lines]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_runs_commands_that_exist(dockerfile: Path) -> None:
    ours = [command[3:] for command in commands(dockerfile) if command[:3] == ["python", "-m", "tconv3d"]]
    assert ["doctor"] in ours
    for arguments in ours:
        parser = argparse.ArgumentParser()
        command_line._COMMANDS[arguments[0]].add_arguments(parser)
        parser.parse_args(arguments[1:])  # raises SystemExit for an option that does not exist


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_installs_what_the_package_supports(dockerfile: Path, metadata: ModuleType) -> None:
    installed = [word for command in commands(dockerfile) if command[:2] == ["pip", "install"] for word in command]
    (torch,) = (word for word in installed if word.startswith("torch=="))
    version = torch.partition("==")[2].split("+")[0]
    assert tuple(map(int, version.split(".")[:2])) >= metadata.pytorch.OLDEST
    for name, text in instructions(dockerfile):
        if name == "COPY" and "--from" not in text:
            assert (ROOT / text.split()[0]).is_dir()


def test_there_is_a_dockerfile_for_each_build_of_pytorch() -> None:
    assert [path.name for path in DOCKERFILES] == ["cpu.Dockerfile", "cuda.Dockerfile"]
