"""`explain` and `precompile` for a model of a GPU: what a container build runs where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tconv3d import _library
from test_cli import fail, run_apart, succeed
from test_docs import load_tool

PROBLEM = "n1 ci2 co3 4x5x6 k2 s2 f64"
NVRTC = _library.cuda_machine()["nvrtc"]
needs_nvrtc = pytest.mark.skipif(not NVRTC["available"], reason=str(NVRTC["reason"]))


def test_explain_tells_what_runs_on_a_model() -> None:
    out = succeed("explain", "kb1_61", "--device", "cuda", "--gpu", "h100-pcie", "--dtype", "bf16")
    assert "model: NVIDIA H100 PCIe, compute capability 9.0, 114 multiprocessors" in out
    assert "wgmma" in out
    assert "roofline" not in out
    ampere = succeed("explain", "kb1_61", "--device", "cuda", "--arch", "sm_80", "--dtype", "bf16")
    assert "compute capability 8.0" in ampere
    assert "mma.sync" in ampere


@needs_nvrtc
def test_precompile_tells_the_nvrtc_that_must_be_there_at_run_time(tmp_path: Path) -> None:
    told = succeed("precompile", PROBLEM, "--gpu", "h200", TCONV3D_CACHE_DIR=str(tmp_path))
    assert f"1 problems for NVIDIA H200, sm_90, 132 multiprocessors, by NVRTC {NVRTC['version']}, into" in told
    assert "/no/such/nvrtc" in fail("precompile", PROBLEM, "--gpu", "h200", TCONV3D_NVRTC="/no/such/nvrtc")


def test_the_choice_depends_on_the_multiprocessors() -> None:
    arguments = ("explain", "n1 ci64 co32 16x32x32 k3 s2 p1 bf16", "--device", "cuda", "--arch", "sm_90")
    few = succeed(*arguments, "--multiprocessors", "8")
    assert "NVIDIA H200 with 8 multiprocessors" in few
    implementation = [line for line in few.splitlines() if line.startswith("implementation")]
    assert implementation[0] not in succeed(*arguments)


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("precompile", PROBLEM, "--gpu", "h2000"), "named 'h2000'; there are: h200 (sm_90), h100"),
        (("precompile", PROBLEM, "--arch", "90"), "--arch takes an architecture such as sm_90, got '90'"),
        (("precompile", PROBLEM, "--arch", "sm_90", "--multiprocessors", "-1"), "1 to 1024 multiprocessors, got -1"),
        (("precompile", PROBLEM, "--multiprocessors", "8"), "--multiprocessors goes with --gpu or --arch"),
        (("explain", PROBLEM, "--gpu", "h200"), "go with --device cuda, got --device cpu"),
    ],
    ids=str,
)
def test_mistakes_are_told(arguments: tuple[str, ...], mentions: str) -> None:
    assert mentions in fail(*arguments)


def compiled(folder: Path, *commands: tuple[str, ...]) -> list[str]:
    """What `precompile` says at the end of each command."""
    done = run_apart(*(["precompile", *command] for command in commands), TCONV3D_CACHE_DIR=str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split(": ")[-1].rpartition(",")[0] for line in done.stdout.splitlines() if line.startswith("[")]


@needs_nvrtc
def test_each_kernel_is_compiled_once(tmp_path: Path) -> None:
    gpus = [("--gpu", "h200"), ("--arch", "sm_90"), ("--gpu", "h100"), ("--gpu", "a100")]
    silu = (PROBLEM, "--gpu", "h200", "--epilogue", "silu")
    assert compiled(tmp_path, *((PROBLEM, *gpu) for gpu in gpus), silu) == [
        "2 compiled, 0 from the cache",  # with bias and without
        "0 compiled, 2 from the cache",
        "0 compiled, 2 from the cache",
        "2 compiled, 0 from the cache",
        # The backward of silu needs the preactivation: the forward that saves it is two kernels more. The way back
        # through silu takes three: with and without the gradient of a bias, and one that adds its parts.
        "7 compiled, 0 from the cache",
    ]
    assert len(list(tmp_path.iterdir())) == 11


@needs_nvrtc
def test_the_kernel_that_packs_weights_is_compiled_too(tmp_path: Path) -> None:
    problem = "n1 ci16 co16 4x8x16 k3 s2 p1 bf16"
    assert compiled(tmp_path, (problem, "--arch", "sm_90")) == ["3 compiled, 0 from the cache"]


@needs_nvrtc
def test_kernels_that_cannot_be_kept_are_an_error() -> None:
    for environment, mentions in (
        ({"TCONV3D_CACHE": "0"}, "no cache to compile into: turned off by TCONV3D_CACHE=0"),
        ({"TCONV3D_CACHE_DIR": "/proc/no/such/folder"}, "2 of 2 kernels could not be kept: /proc/no/such/folder"),
    ):
        assert mentions in fail("precompile", PROBLEM, "--gpu", "h200", **environment)


@needs_nvrtc
def test_kernels_of_the_gpus_tests_are_compiled_ahead() -> None:
    """What an implementation does not take is no error. Large problems are compiled in the one that is chosen."""
    tool = load_tool("precompile-tests")
    large = set(tool.all_work(["fwd", "bwd_weight"], "^net_vnet$"))
    assert {implementation for _, implementation in large} == {""}
    assert not any("bwd_weight" in text for text, _ in large)
    (text,) = {text for text, _ in tool.all_work(["bwd_data"], "^one_voxel$")}
    assert tool.compile_for("h200", (text, "direct"))
    assert not tool.compile_for("h200", (text, "sweep")), "that is for bwd_weight"
