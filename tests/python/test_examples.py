"""The C++ examples build as programs of their own, against the library that `make build` has built, and run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build/release"
RESULT = "dst is 24x48x48; its first voxel, by channel: 8 9 10 11 2 1 0 0"

if not (LIBRARY / "tconv3dConfig.cmake").exists() or shutil.which("cmake") is None:
    pytest.skip(f"needs CMake and the library in {LIBRARY}: make build", allow_module_level=True)


def output_of(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    # The library has the ABI of the PyTorch that it was built for.
    abi = f"-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    output_of("cmake", "-S", str(ROOT / "examples/cpp"), "-B", str(folder), f"-Dtconv3d_DIR={LIBRARY}", abi)
    output_of("cmake", "--build", str(folder))
    return folder


def test_the_example_on_the_cpu(examples: Path) -> None:
    assert RESULT in output_of(str(examples / "upsample"))


def test_the_example_on_a_gpu(examples: Path) -> None:
    out = output_of(str(examples / "upsample_gpu"))
    assert ("device          0: " in out and RESULT in out) or out.startswith("There is no GPU to use: ")
    assert (RESULT in out) >= torch.cuda.is_available()
