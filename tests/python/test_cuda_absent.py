"""The CUDA parts on a machine without a GPU: they say what is missing, and the CPU does not notice them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tconv3d
from tconv3d import _library, fallback
from tconv3d.cli import bench_cuda, doctor, tune
from tconv3d.cli.gpu import Measured
from tconv3d.problem import NamedProblem, Problem
from test_cli import PROBLEM, fail, run, run_apart

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
        dst = torch.ops.tconv3d.fwd(src, weight, None, [2] * 3, [0] * 3, [0] * 3, 1, [1] * 3, "relu")
    assert dst.device.type == "cuda"
    assert dst.shape == (1, 4, 7, 7, 7)


def implementation_line(explained: str) -> str:
    (line,) = (line for line in explained.splitlines() if line.startswith("implementation"))
    return line.split(maxsplit=1)[1]


@pytest.fixture
def as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TCONV3D_CUDA_IMPL", "TCONV3D_CUDA_GRADIENTS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("direction", ["bwd_data", "bwd_weight"])
def test_explain_says_that_pytorch_computes_gradients_where_it_is_told_to(
    direction: str, as_it_comes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", "0")
    line = implementation_line(torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "", 0))
    assert line == "PyTorch's operator: TCONV3D_CUDA_GRADIENTS=0"
    monkeypatch.delenv("TCONV3D_CUDA_GRADIENTS")
    double = f"{PROBLEM.replace(' tf32', '').replace(' f32', '')} f64 {direction}"
    line = implementation_line(torch.ops.tconv3d.cuda_explain(double, "", 0))
    assert line == f"PyTorch's operator: {direction} in f64 is PyTorch's unless TCONV3D_CUDA_GRADIENTS=1 is set"
    with pytest.raises(RuntimeError, match=f"an epilogue belongs to fwd, got 'relu' with {direction}"):
        torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "relu", 0)
    # A plan is asked for, which needs a driver.
    for value in ("", "1"):
        monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", value)
        with pytest.raises(RuntimeError, match=re.escape(_library.cuda_machine()["driver"]["reason"])):
            torch.ops.tconv3d.cuda_explain(f"{PROBLEM} {direction}", "", 0)


@pytest.mark.parametrize("direction", ["bwd_data", "bwd_weight"])
def test_gradients_are_chosen_by_the_estimates(
    direction: str, as_it_comes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def computes(value: str) -> str:
        monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", value)
        return implementation_line(torch.ops.tconv3d.cuda_model_explain(f"{PROBLEM} {direction}", "", "h200", 0))

    implementations = _library.cuda_machine()["implementations"]
    assert all(computes(value).split(":")[0] in implementations for value in ("", "1"))
    assert computes("0").startswith("PyTorch's operator")
    with pytest.raises(RuntimeError, match="TCONV3D_CUDA_GRADIENTS=yes is neither 0 nor 1"):
        computes("yes")


def test_explain_takes_a_list_of_directions(as_it_comes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("explain", PROBLEM, "--device", "cuda", "--gpu", "h200", "--direction", "fwd,bwd_data,bwd_weight")
    assert run(*arguments).stdout.count("PyTorch's operator: ") == 0
    monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", "0")
    assert run(*arguments).stdout.count("PyTorch's operator: ") == 2


@pytest.mark.skipif(not _library.cuda_machine()["nvrtc"]["available"], reason="there is no NVRTC")
def test_precompile_takes_gradients_and_the_way_back_through_an_epilogue(
    as_it_comes: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unless gradients are left to PyTorch."""
    forward = ["precompile", "n1 ci3 co5 4x4x4 k3", "--gpu", "h200", "--epilogue", "channel_mul"]
    monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", "0")
    alone = run_apart(forward, TCONV3D_CACHE_DIR=str(tmp_path))
    assert "ncdhw: 4 compiled, 0 from the cache" in alone.stdout, alone.stderr
    monkeypatch.delenv("TCONV3D_CUDA_GRADIENTS")
    done = run_apart(forward, [*forward, "--direction", "fwd,bwd_data,bwd_weight"], TCONV3D_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, *directions = (line for line in done.stdout.splitlines() if line.startswith("["))
    assert "ncdhw: 3 compiled, 5 from the cache" in first, "the kernels of the epilogue's backward"
    assert "ncdhw: 0 compiled, 8 from the cache" in directions[0]
    assert [line.split(":")[0].split()[-1] for line in directions[1:]] == ["bwd_data", "bwd_weight"]


def test_doctor_goes_on() -> None:
    done = run("doctor")
    assert done.returncode == 0
    assert "sees no GPU" in done.stdout
    nvrtc = _library.cuda_machine()["nvrtc"]
    assert f"NVRTC    {nvrtc['version'] or 'not available: '}" in done.stdout, "which `precompile --gpu` needs"


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("explain", PROBLEM, "--device", "cuda"), "no CUDA GPU"),
        (("bench", "--device", "cuda"), "no CUDA GPU"),
        (("bench", "--alone"), "--alone is for --device cuda"),
        (("bench", "--device", "cuda", "--alone", "--plot", "x.png"), "which --alone does not time"),
        (("precompile", PROBLEM), "no CUDA GPU"),
        (("tune", PROBLEM), "no CUDA GPU"),
        (("tune", PROBLEM, "--record", "times.jsonl"), "no CUDA GPU"),
        (("bench", "--dtype", "tf32"), "tf32"),
    ],
    ids=str,
)
def test_commands_say_what_is_missing(arguments: tuple[str, ...], mentions: str) -> None:
    assert mentions in fail(*arguments)


def test_calls_on_the_cpu_do_not_ask(asked_anew: None) -> None:
    tconv3d.conv_transpose3d(torch.ones(1, 2, 3, 3, 3), torch.ones(2, 2, 1, 1, 1))
    assert not _library._cuda_asked


@pytest.fixture
def bench_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Namespace:
    """Of a benchmark on a GPU that is not there, which writes the names of its rows and their sides."""
    monkeypatch.setattr(bench_cuda, "require_gpu", lambda: None)
    monkeypatch.setattr(bench_cuda, "summary", lambda rows, rates: "")
    monkeypatch.setattr(bench_cuda, "results", lambda rows, rates: {row.name: list(row.sides) for row in rows})
    return Namespace(
        dtype=["bf16"], seconds=0.1, repeats=1, seed=0, plot=None, alone=False, json=tmp_path / "results.json"
    )


BENCH_CASES = [NamedProblem(name, Problem.parse(f"{PROBLEM} {name}"), "") for name in ("bf16", "bf16 d2")]
BENCH_SIDES = ["default", "tuned ncdhw", "tuned ndhwc", "tconv3d"]


def bench_worker(work: dict[str, Any], stopped_at: int | None = None) -> Iterator[dict[str, Any]]:
    if "ceilings" in work:
        yield {"bf16": {"matmul_gflops": 1e6, "copy_gbytes": 1e3}}
        return
    for index, problem in enumerate(work["problems"]):
        if work["side"] == "tconv3d" and index == stopped_at:
            raise KeyboardInterrupt
        yield {"problem": problem, "ms": 1.0, "error": 0.0, "agrees": True}


def test_a_benchmark_that_is_stopped_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, bench_options: Namespace
) -> None:
    monkeypatch.setattr(bench_cuda, "_worker", partial(bench_worker, stopped_at=1))
    assert bench_cuda.run(bench_options, BENCH_CASES) == 1
    assert json.loads(bench_options.json.read_text()) == {"bf16": BENCH_SIDES}


def test_a_benchmark_of_tconv3d_alone_times_nothing_else(
    monkeypatch: pytest.MonkeyPatch, bench_options: Namespace
) -> None:
    monkeypatch.setattr(bench_cuda, "_worker", bench_worker)
    bench_options.alone = True
    assert bench_cuda.run(bench_options, BENCH_CASES) == 0
    assert json.loads(bench_options.json.read_text()) == {"bf16": ["tconv3d"], "bf16 d2": ["tconv3d"]}


@pytest.fixture
def made_up_gpu(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Two candidates for every problem, of which the second one fails in bf16; returns what is remembered."""
    remembered: list[tuple[Any, ...]] = []
    ms = {"stream": 0.25, "direct": 0.125}

    def measure(call: Any, sets: int, seconds: float, repeats: int) -> Measured:
        implementation = os.environ["TCONV3D_CUDA_IMPL"]
        if implementation == "direct" and call(0) == "bf16":
            raise RuntimeError("made up")
        return Measured(ms[implementation], [], 0.0, 0.0, 0)

    device = {"name": "made up", "sm": 90, "multiprocessors": 132, "shared_memory_per_block": 232448, "l2_bytes": 1}
    found = [tune.Candidate("stream", "1 x 8 x 8 voxels"), tune.Candidate("direct", "")]
    monkeypatch.setattr(tune, "require_gpu", lambda: None)
    monkeypatch.setattr(tune, "candidates", lambda problem: found)
    monkeypatch.setattr(tune, "sets_past_l2", lambda bytes_moved: 2)
    monkeypatch.setattr(tune, "make_tensors", lambda problem, device: ())
    monkeypatch.setattr(tune, "tconv3d_call", lambda problem: problem.dtype)
    monkeypatch.setattr(tune, "measure", measure)
    monkeypatch.setattr(tune, "switch_tf32", lambda mode: None)
    monkeypatch.setattr(_library, "cuda_machine", lambda: {"devices": [device]})
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "made up")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.ops.tconv3d, "cuda_remember", lambda *arguments: remembered.append(arguments))
    return remembered


def tune_options(record: Path | None, direction: str | None = None) -> Namespace:
    lists = {"dtype": "bf16,f32", "layout": "ndhwc", "direction": direction}
    return Namespace(problems=[PROBLEM], **lists, seconds=0.01, record=record)


def test_recorded_times_are_lines_of_json(made_up_gpu: list[tuple[Any, ...]], tmp_path: Path) -> None:
    file = tmp_path / "times.jsonl"
    file.write_text("a line of an earlier run\n")
    assert tune.run(tune_options(file)) == 0
    earlier, *lines = file.read_text().splitlines()
    assert earlier == "a line of an earlier run"
    device = {"device": "made up", "sm": 90, "multiprocessors": 132, "shared_memory_per_block": 232448}
    bf16, f32 = (f"{PROBLEM} op0 d1 g1 {dtype} ndhwc fwd" for dtype in ("bf16", "f32"))
    stream = {"implementation": "stream", "candidate": "1 x 8 x 8 voxels", "ms": 0.25, **device}
    assert [json.loads(line) for line in lines] == [
        {"problem": bf16, **stream},
        {"problem": f32, **stream},
        {"problem": f32, "implementation": "direct", "candidate": "", "ms": 0.125, **device},
    ]
    assert made_up_gpu == []


def test_gradients_are_tuned_too(made_up_gpu: list[tuple[Any, ...]]) -> None:
    assert tune.run(tune_options(None, "bwd_data,bwd_weight")) == 0
    assert [arguments[0].split()[-1] for arguments in made_up_gpu] == ["bwd_data", "bwd_weight"] * 2


def test_without_a_record_the_fastest_is_remembered(made_up_gpu: list[tuple[Any, ...]]) -> None:
    assert tune.run(tune_options(None)) == 0
    assert [arguments[2:] for arguments in made_up_gpu] == [("stream", "1 x 8 x 8 voxels"), ("direct", "")]


def test_a_record_that_cannot_be_written_is_said_before_anything_is_timed(
    made_up_gpu: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune, "measure", lambda *arguments: pytest.fail("timed"))
    with pytest.raises(OSError, match="no_folder"):
        tune.run(tune_options(tmp_path / "no_folder" / "times.jsonl"))


MACHINE_WITH_A_GPU: dict[str, Any] = {
    "torch": {"available": True, "reason": ""},
    "driver": {"available": True, "reason": "", "version": "12.8"},
    "nvrtc": {"available": True, "reason": "", "version": "12.9", "file": "libnvrtc.so.12"},
}


def test_a_machine_is_left_to_pytorch_when_all_its_devices_are() -> None:
    def failure(*devices: str) -> str | None:
        return _library.find_cuda_failure({**MACHINE_WITH_A_GPU, "devices": [{"failure": each} for each in devices]})

    assert failure("") is None
    assert failure("", "does not compile for sm_120") is None  # the other one works; the op leaves this one alone
    assert failure("does not compile for sm_120") == "does not compile for sm_120"


@pytest.mark.parametrize(
    ("cuda", "first"),
    [(None, "cu13"), ("13.0", "cu13"), ("12.8", "cuda_nvrtc"), ("11.8", "cuda_nvrtc")],
)
def test_nvrtc_is_that_of_pytorchs_cuda(cuda: str | None, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    folders = [str(folder) for folder in _library._nvrtc_folders()]
    assert f"/nvidia/{first}/lib" in folders[0]
    assert sorted(folder.split("/")[-2] for folder in folders) == ["cu13", "cuda_nvrtc", "torch"]


@pytest.mark.parametrize(("driver", "says"), [("12.8", ""), ("13.0", "which loads"), ("11.8", "which cannot load")])
def test_doctor_tells_of_versions_that_differ(driver: str, says: str) -> None:
    text = doctor._other_major({**MACHINE_WITH_A_GPU, "driver": {"version": driver}})
    assert (says in text) if says else text == ""


@pytest.fixture
def cache_of(tmp_path: Path) -> Callable[..., str]:
    """What doctor says of a cache folder, asked in a process of its own, because a process asks once."""

    def ask(name: bytes, **environment: str) -> str:
        code = "from tconv3d import _library; from tconv3d.cli import doctor\n"
        code += "print(doctor._cache(_library.cuda_machine()['cache']))"
        paths = os.pathsep.join(path for path in sys.path if path)
        settings = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", **environment}
        encoded = {key.encode(): os.fsencode(value) for key, value in settings.items()}
        encoded[b"TCONV3D_CACHE_DIR"] = os.fsencode(tmp_path) + b"/" + name
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=encoded)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ask


def test_doctor_says_why_a_cache_cannot_be_used(cache_of: Callable[..., str], tmp_path: Path) -> None:
    good = cache_of(b"cache/", TCONV3D_CACHE_MIB="7")
    assert "0 compiled and tuned ones in" in good
    assert "of at most 7 MiB" in good
    assert "compiled in each process" not in good
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    open_to_all = cache_of(b"open")
    assert "new ones are compiled in each process" in open_to_all
    assert "is writable by others (mode 0777" in open_to_all
    assert "TCONV3D_CACHE_MIB=much is not a number of MiB" in cache_of(b"cache", TCONV3D_CACHE_MIB="much")


def test_a_cache_folder_whose_name_is_not_utf8_can_be_told(cache_of: Callable[..., str]) -> None:
    assert "caf\\xe9, 0.0 of" in cache_of(b"caf\xe9")
