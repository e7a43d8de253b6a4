"""On a GPU: settings, the command line and KernelBench, each as a user runs it."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tconv3d import _library
from tconv3d.cli.cases import make_tensors, parameters, tconv3d_call, torch_call
from tconv3d.cli.modes import in_mode, switch_tf32
from tconv3d.cli.tune import candidates
from tconv3d.fallback import torch_conv_transpose3d
from tconv3d.problem import Problem

if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA GPU", allow_module_level=True)


IMPLEMENTATIONS = _library.cuda_machine()["implementations"]


def in_a_process(code: str, **environment: str) -> str:
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_without_nvrtc_pytorch_computes_and_a_warning_says_why() -> None:
    out = in_a_process(
        "import torch, tconv3d, torch.nn.functional as F\n"
        "x, w = torch.randn(1, 2, 3, 3, 3, device='cuda'), torch.randn(2, 2, 3, 3, 3, device='cuda')\n"
        "for _ in range(2): y = tconv3d.conv_transpose3d(x, w, epilogue=tconv3d.Epilogue().relu())\n"
        "print(torch.equal(y, F.conv_transpose3d(x, w).relu()), tconv3d.fallback.reason(x, w))\n",
        TCONV3D_NVRTC="/no/such/library.so",
    )
    assert "True input is on cuda:0" in out
    assert out.count("UserWarning: tconv3d's CUDA backend cannot be used") == 1
    assert "NVRTC" in out


def test_the_switch_that_pytorch_2_9_brought() -> None:
    """Convolutions in full, recurrent networks in tf32: the older switch cannot say that, and asking it would raise."""
    if not hasattr(getattr(torch.backends.cudnn, "conv", None), "fp32_precision"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.backends.cudnn.conv.fp32_precision")
    code = (
        "import torch, tconv3d\n"
        "torch.backends.cudnn.conv.fp32_precision = '{conv}'\n"
        "torch.backends.cudnn.rnn.fp32_precision = '{rnn}'\n"
        "x, w = torch.randn(2, 32, 4, 8, 32, device='cuda'), torch.randn(32, 32, 3, 3, 3, device='cuda')\n"
        "y = torch.nn.functional.conv_transpose3d(x.double(), w.double())\n"
        "print(((tconv3d.conv_transpose3d(x, w) - y).abs().max() / y.abs().max()).item())\n"
    )
    assert float(in_a_process(code.format(conv="ieee", rnn="tf32")).split()[-1]) < 1e-5
    assert float(in_a_process(code.format(conv="tf32", rnn="ieee")).split()[-1]) < 2e-3


@pytest.mark.parametrize("folder", ["", "/proc/no/such/folder"])
def test_any_cache_folder_will_do(folder: str, tmp_path: Path) -> None:
    code = (
        "import torch, tconv3d\n"
        "x, w = torch.ones(1, 2, 3, 3, 3, device='cuda'), torch.ones(2, 2, 1, 1, 1, device='cuda')\n"
        "assert (tconv3d.conv_transpose3d(x, w) == 2).all()\n"
    )
    in_a_process(code, TCONV3D_CACHE_DIR=folder or str(tmp_path / "cache"))
    assert folder or list((tmp_path / "cache").iterdir())


def test_tuning_is_remembered(tmp_path: Path) -> None:
    run = "import sys; from tconv3d.__main__ import main; sys.exit(main({}))"
    problem = "n1 ci16 co16 4x8x16 k3 s2 p1 bf16"
    tuned = in_a_process(run.format(["tune", problem, "--seconds", "0.01"]), TCONV3D_CACHE_DIR=str(tmp_path))
    fastest = tuned.split("remembered: ")[1].split(",")[0]
    assert len(list(tmp_path.glob("*.tuned"))) == 1
    explain = run.format(["explain", problem, "--device", "cuda", "--no-measure"])
    explained = in_a_process(explain, TCONV3D_CACHE_DIR=str(tmp_path))
    assert explained.split("implementation ")[1].split(":")[0].strip() == fastest.split(":")[0]
    assert "when this problem was tuned" in explained
    assert "when this problem was tuned" not in in_a_process(explain, TCONV3D_CACHE_DIR=str(tmp_path / "other"))


def test_recording_times_remembers_nothing(tmp_path: Path) -> None:
    problem, file = "n1 ci16 co16 4x8x16 k3 s2 p1 bf16", tmp_path / "times.jsonl"
    arguments = ["tune", problem, "--seconds", "0.01", "--record", str(file)]
    run = f"import sys; from tconv3d.__main__ import main; sys.exit(main({arguments}))"
    assert "remembered" not in in_a_process(run, TCONV3D_CACHE_DIR=str(tmp_path))
    assert not list(tmp_path.glob("*.tuned"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    measured = {(line["implementation"], line["candidate"]) for line in lines}
    assert measured == {(each.implementation, each.variant) for each in candidates(Problem.parse(problem))}
    assert all(line["ms"] > 0 and line["device"] == torch.cuda.get_device_name() for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "n2 ci24 co20 3x6x16 k3 s2 p1",
        "n1 ci32 co16 4x9x8 k3 p1",
        "n3 ci16 co24 4x4x4 k4 s2 p1",
        "n16 ci48 co64 12x16x16 k3 s2 p1",  # slices of src that stay, rows of odd length
    ],
)
@pytest.mark.parametrize("mode", ["tf32", "bf16"])
def test_every_candidate_is_exact(text: str, mode: str) -> None:
    problem = in_mode(Problem.parse(text), mode)
    switch_tf32(mode)
    src, weight = (tensor.mul(2).round() for tensor in make_tensors(problem, "cuda"))
    exact = torch_conv_transpose3d(src.cpu().float(), weight.cpu().float(), None, *parameters(problem))
    all_candidates = candidates(problem)
    assert len(all_candidates) > 3
    for candidate in all_candidates:
        with candidate.forced():
            assert torch.equal(tconv3d_call(problem, src, weight).cpu(), exact.to(src.dtype)), str(candidate)


def test_the_command_line(tmp_path: Path) -> None:
    run = "import sys; from tconv3d.__main__ import main; sys.exit(main({}))"
    assert "usable" in in_a_process(run.format(["doctor"]))
    explained = in_a_process(run.format(["explain", "net_unet3_s2op1", "--device", "cuda", "--dtype", "bf16"]))
    assert "direct" in explained
    assert "TFLOP" in explained or "GFLOP" in explained
    gradient = run.format(["explain", "n1 ci3 co5 4x4x4 k3 bwd_data", "--device", "cuda", "--no-measure"])
    assert "PyTorch's operator: " in in_a_process(gradient, TCONV3D_CUDA_GRADIENTS="0")
    assert "direct: gathers one voxel x 3 channels" in in_a_process(gradient, TCONV3D_CUDA_IMPL="direct")
    assert "PyTorch's operator: " not in in_a_process(gradient, TCONV3D_CUDA_GRADIENTS="")
    compiled = in_a_process(run.format(["precompile", "n1 ci3 co5 4x4x4 k3", "--dtype", "f32,bf16"]))
    assert "2/2" in compiled
    file = tmp_path / "bench.json"
    arguments = ["bench", "--device", "cuda", "--filter", "net_unet3|net_vnet", "--dtype", "tf32", "--seconds", "0.02"]
    table = in_a_process(run.format([*arguments, "--json", str(file)]))
    assert "net_unet3_s2op1" in table
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == 2
    for row in rows:
        assert row["agrees"]
        assert set(row["sides"]) == {"default", "tuned ncdhw", "tuned ndhwc", "tconv3d"}
        assert row["sides"]["tconv3d"]["implementation"] in IMPLEMENTATIONS
        assert row["sides"]["tconv3d"]["description"]
        assert all(us > 1 for us in row["sides"]["tconv3d"]["calls_us"].values())
        for side in row["sides"].values():
            assert ("device_us" in side) == (row["floor_ms"] < 0.01)
    shortest = min(rows, key=lambda row: row["floor_ms"])["sides"]["tconv3d"]
    assert 1 < shortest["device_us"] < 1.5e3 * shortest["ms"]


def test_the_benchmark_times_gradients_too(tmp_path: Path) -> None:
    run = "import sys; from tconv3d.__main__ import main; sys.exit(main({}))"
    file = tmp_path / "bench.json"
    arguments = ["bench", "--device", "cuda", "--filter", "net_vnet", "--dtype", "bf16", "--seconds", "0.02"]
    directions = ["--direction", "fwd,bwd_data,bwd_weight"]
    table = in_a_process(run.format([*arguments, *directions, "--json", str(file)]), TCONV3D_CUDA_GRADIENTS="")
    assert "bwd_weight bf16 ncdhw" in table
    rows = json.loads(file.read_text())["rows"]
    assert [row["direction"] for row in rows] == ["fwd", "bwd_data", "bwd_weight"]
    for row in rows:
        assert row["agrees"]
        assert set(row["sides"]) == {"default", "tuned ncdhw", "tuned ndhwc", "tconv3d"}
        assert row["sides"]["tconv3d"]["implementation"] in IMPLEMENTATIONS


@pytest.mark.parametrize("direction", ["bwd_data", "bwd_weight"])
@pytest.mark.parametrize("text", ["n2 ci24 co20 3x6x16 k3 s2 p1", "n2 ci8 co8 4x5x8 k4 s2 p1 g8"])
@pytest.mark.parametrize("mode", ["tf32", "bf16"])
def test_every_candidate_of_a_gradient_is_exact(text: str, mode: str, direction: str) -> None:
    problem = replace(in_mode(Problem.parse(text), mode), direction=direction)
    switch_tf32(mode)
    tensors = [tensor.clamp(-1, 1).round() for tensor in make_tensors(problem, "cuda")]
    exact = torch_call(problem, *(tensor.cpu().double() for tensor in tensors))
    for candidate in candidates(problem):
        with candidate.forced():
            assert torch.equal(tconv3d_call(problem, *tensors).cpu(), exact.to(tensors[0].dtype)), str(candidate)


def test_what_is_compiled_without_a_gpu_is_what_a_call_looks_for(tmp_path: Path) -> None:
    run = "import sys; from tconv3d.__main__ import main; sys.exit(main({}))"
    problems = ["n1 ci16 co16 4x8x16 k3 s2 p1", "n2 ci8 co8 8x8x8 k4 s2 p1 g8"]
    device = _library.cuda_machine()["devices"][0]
    model = ["--arch", f"sm_{device['sm']}", "--multiprocessors", str(device["multiprocessors"])]
    arguments = ["precompile", *problems, "--dtype", "tf32,bf16", "--epilogue", "silu"]
    compiled = in_a_process(run.format([*arguments, *model]), TCONV3D_CACHE_DIR=str(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert " 0 compiled" not in compiled
    called = in_a_process(run.format(arguments), TCONV3D_CACHE_DIR=str(tmp_path))
    assert called.count(": 0 compiled") == 4, compiled + called


def test_kernelbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "kernelbench"))
    run = importlib.import_module("run")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    file = tmp_path / "results.json"
    plain, compiled = ["L1-73", "L2-3", "L2-26", "L2-38", "L2-77", "L2-100"], ["L1-77", "L2-74"]
    for only, more in ((plain, ["--no-compile"]), (compiled, ["--no-tf32"])):
        arguments = ["run.py", "--device", "cuda", "--scale", "small", "--seconds", "0", "--json", str(file), *more]
        monkeypatch.setattr(sys, "argv", [*arguments, "--only", *only])
        assert run.main() == 0, capsys.readouterr().out
        results = json.loads(file.read_text())
        assert results["tf32"] == (only is plain)
        assert len(results["results"]) == len(only)
        sides = ["torch_ms", "tuned_ms", "tuned_ndhwc_ms"] + ["compiled_ms", "tuned_compiled_ms"] * (only is compiled)
        for result in results["results"]:
            assert result["best_ms"] == min(result[side] for side in sides)
            assert (result["tconv3d_compiled_ms"] is not None) == (only is compiled)
    for name in ("run", "measure", "reference", "tuned", *(name for name in sys.modules if name.startswith("level"))):
        sys.modules.pop(name, None)


NVRTC_THAT_FAILS = """
#include <stddef.h>
int nvrtcVersion(int* major, int* minor) { *major = 11; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int* architectures) { *architectures = ARCHITECTURE; return 0; }
const char* nvrtcGetErrorString(int result) { return "as the test asked"; }
int nvrtcCreateProgram(void) { return 0; }
int nvrtcDestroyProgram(void) { return 0; }
int nvrtcCompileProgram(void) { return 6; }
int nvrtcGetProgramLogSize(void* program, size_t* bytes) { *bytes = 1; return 0; }
int nvrtcGetProgramLog(void* program, char* log) { *log = 0; return 0; }
int nvrtcGetCUBINSize(void* program, size_t* bytes) { *bytes = 0; return 0; }
int nvrtcGetCUBIN(void) { return 0; }
"""


def nvrtc_that_fails(folder: Path, architecture: int) -> str:
    """A library that takes NVRTC's place, knows one architecture and compiles nothing."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "nvrtc.c").write_text(NVRTC_THAT_FAILS)
    library = folder / "libnvrtc_that_fails.so"
    command = [compiler, "-shared", "-fPIC", f"-DARCHITECTURE={architecture}", "-o", str(library), "nvrtc.c"]
    subprocess.run(command, cwd=folder, check=True)
    return str(library)


CALL_WITH_GRADIENTS = """
import torch, tconv3d, torch.nn.functional as F
torch.backends.cudnn.allow_tf32 = False
x, w = (torch.randn(*shape, device='cuda', requires_grad=True) for shape in ((1, 8, 3, 3, 3), (8, 4, 3, 3, 3)))
for _ in range(3):
    y = tconv3d.conv_transpose3d(x, w, stride=2, epilogue=tconv3d.Epilogue().mish())
    z = F.mish(F.conv_transpose3d(x, w, stride=2))
    torch.testing.assert_close(y, z)
    for ours, theirs in zip(torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(z.sum(), (x, w))):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
print('computed', tconv3d.fallback.reason(x, w))
"""


def test_where_no_kernel_compiles_pytorch_computes_and_warnings_say_why(tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    library = nvrtc_that_fails(tmp_path, major * 10 + minor)
    out = in_a_process(CALL_WITH_GRADIENTS, TCONV3D_NVRTC=library, TCONV3D_CUDA_IMPL="")
    assert "computed None" in out
    assert out.count("so PyTorch's operator computes") == 1, "it is not tried anew"
    assert "implementation direct has failed" in out
    assert "as the test asked" in out
    with pytest.raises(AssertionError, match="NVRTC cannot compile"):
        in_a_process(CALL_WITH_GRADIENTS, TCONV3D_NVRTC=library, TCONV3D_CUDA_IMPL="direct")


def test_where_no_kernel_compiles_pytorch_computes_the_gradients_too(tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    library = nvrtc_that_fails(tmp_path, major * 10 + minor)
    out = in_a_process(CALL_WITH_GRADIENTS, TCONV3D_NVRTC=library, TCONV3D_CUDA_IMPL="", TCONV3D_CUDA_GRADIENTS="1")
    assert "computed None" in out
    assert out.count("so PyTorch's operator computes") == 1, "of all directions, the first is told"
    assert out.count("backward of the epilogue 'mish' has failed, so PyTorch's operators compute") == 1


def test_an_architecture_that_nvrtc_does_not_know_is_left_to_pytorch(tmp_path: Path) -> None:
    library = nvrtc_that_fails(tmp_path, 50)
    out = in_a_process(CALL_WITH_GRADIENTS, TCONV3D_NVRTC=library, TCONV3D_CUDA_IMPL="")
    assert "computed input is on cuda:0, where tconv3d cannot run: NVRTC 11.0 does not compile for" in out
    assert out.count("UserWarning") == 1
