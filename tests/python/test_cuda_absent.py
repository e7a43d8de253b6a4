"""The CUDA parts on a machine without a GPU: they say what is missing, and the CPU does not notice them."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tconv3d
from tconv3d import _library, fallback
from tconv3d.cli import bench_cuda, listed
from tconv3d.problem import NamedProblem, Problem
from test_cli import PROBLEM, run

if torch.cuda.is_available():
    pytest.skip("this machine has a GPU", allow_module_level=True)


@pytest.fixture
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "_cuda_asked", False)


def test_the_library_tells_what_it_lacks() -> None:
    machine = json.loads(torch.ops.tconv3d.cuda_machine())
    assert "direct" in machine["implementations"]
    assert machine["devices"] == []
    assert machine["torch"]["available"] == (torch.version.cuda is not None)
    assert not machine["driver"]["available"]
    assert all(machine[part]["reason"] for part in ("torch", "driver") if not machine[part]["available"])


def test_the_reason_is_warned_about_once(asked_anew: None) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        src, weight = torch.empty(1, 2, 3, 3, 3, device="cuda"), torch.empty(2, 2, 3, 3, 3, device="cuda")
    with pytest.warns(UserWarning, match="CUDA backend cannot be used") as seen:
        reasons = [fallback.reason(src, weight) for _ in range(3)]
    assert len(seen) == 1
    assert reasons == [f"input is on cuda:0, where tconv3d cannot run: {_library.cuda_failure()}"] * 3


def test_torch_compile_takes_the_answer_for_a_constant(asked_anew: None) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if _library.cuda_failure() is None else x + 2

    with pytest.warns(UserWarning, match="CUDA backend cannot be used"):
        compiled = torch.compile(function, fullgraph=True, backend="eager")(torch.zeros(2))
    assert compiled.tolist() == [2, 2]


def test_the_ops_know_the_sizes_on_a_gpu() -> None:
    with FakeTensorMode():
        src, weight = torch.empty(1, 2, 3, 3, 3, device="cuda"), torch.empty(2, 4, 3, 3, 3, device="cuda")
        dst = torch.ops.tconv3d.fwd(src, weight, None, [2] * 3, [0] * 3, [0] * 3, 1, [1] * 3, "relu", [])
    assert dst.device.type == "cuda"
    assert dst.shape == (1, 4, 7, 7, 7)


@pytest.mark.parametrize("direction", ["bwd_data", "bwd_weight"])
def test_explain_says_that_pytorch_computes_gradients(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCONV3D_CUDA_IMPL", raising=False)
    lines = torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "", 0).splitlines()
    (line,) = (line for line in lines if line.startswith("implementation"))
    assert line.split(maxsplit=1)[1].startswith(f"PyTorch's operator: tconv3d's only kernel for {direction}, direct, ")
    assert "TCONV3D_CUDA_IMPL=direct has it run" in line
    with pytest.raises(RuntimeError, match=f"an epilogue belongs to fwd, got 'relu' with {direction}"):
        torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "relu", 0)
    # A plan is asked for, which needs a driver.
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", "direct")
    with pytest.raises(RuntimeError, match=re.escape(_library.cuda_machine()["driver"]["reason"])):
        torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "", 0)


def test_commands_that_compile_and_tune_take_fwd() -> None:
    options = Namespace(problems=[f"{PROBLEM} bwd_data"], dtype=None, layout=None)
    with pytest.raises(ValueError, match=r"is bwd_data: this command takes fwd"):
        listed.listed(options)
    options.problems = [PROBLEM]
    assert [case.problem.direction for case in listed.listed(options)] == ["fwd"]


def test_doctor_goes_on() -> None:
    done = run("doctor")
    assert done.returncode == 0
    assert "sees no GPU" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("explain", PROBLEM, "--device", "cuda"), "no CUDA GPU"),
        (("bench", "--device", "cuda"), "no CUDA GPU"),
        (("precompile", PROBLEM), "no CUDA GPU"),
        (("tune", PROBLEM), "no CUDA GPU"),
        (("bench", "--dtype", "tf32"), "tf32"),
    ],
    ids=str,
)
def test_commands_say_what_is_missing(arguments: tuple[str, ...], mentions: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert mentions in done.stderr
    assert "Traceback" not in done.stderr


def test_calls_on_the_cpu_do_not_ask(asked_anew: None) -> None:
    tconv3d.conv_transpose3d(torch.ones(1, 2, 3, 3, 3), torch.ones(2, 2, 1, 1, 1))
    assert not _library._cuda_asked


def test_a_benchmark_that_is_stopped_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def worker(work: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "ceilings" in work:
            yield {"bf16": {"matmul_gflops": 1e6, "copy_gbytes": 1e3}}
            return
        for index, problem in enumerate(work["problems"]):
            if work["side"] == "tconv3d" and index == 1:
                raise KeyboardInterrupt
            yield {"problem": problem, "ms": 1.0, "error": 0.0, "agrees": True}

    monkeypatch.setattr(bench_cuda, "require_gpu", lambda: None)
    monkeypatch.setattr(bench_cuda, "_worker", worker)
    monkeypatch.setattr(bench_cuda, "summary", lambda rows, rates: "")
    monkeypatch.setattr(bench_cuda, "results", lambda rows, rates: {"rows": [row.name for row in rows]})
    cases = [NamedProblem(name, Problem.parse(f"{PROBLEM} {name}"), "") for name in ("bf16", "bf16 d2")]
    options = Namespace(directions=["fwd"], dtype=["bf16"], seconds=0.1, repeats=1, seed=0, plot=None)
    options.json = tmp_path / "results.json"
    assert bench_cuda.run(options, cases) == 1
    assert json.loads(options.json.read_text()) == {"rows": ["bf16"]}
