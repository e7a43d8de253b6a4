"""`python -m tconv3d`: doctor, explain and bench, as a user runs them."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tconv3d
from conftest import MACHINE
from tconv3d.__main__ import main
from tconv3d.cli import bench as bench_command
from tconv3d.cli import listed
from tconv3d.cli.cases import make_tensors, tconv3d_call, torch_call
from tconv3d.cli.environment import own_gradients
from tconv3d.problem import LAYOUTS, Problem

PROBLEM = "n1 ci2 co3 2x3x4 k3 s2 p1"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In this process, which has imported PyTorch already; in one of its own where variables are set, of which the
    library reads some once."""
    if environment:
        return run_apart(list(arguments), **environment)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as stopped:  # bad usage
            code = int(str(stopped.code))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def run_apart(*commands: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """The commands one after the other, up to one that fails, in a process of their own."""
    code = "import json, sys\nfrom tconv3d.__main__ import main\n"
    code += "for command in json.loads(sys.argv[1]):\n    code = main(command)\n    if code: sys.exit(code)"
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        timeout=300,
    )


def succeed(*arguments: str, **environment: str) -> str:
    done = run(*arguments, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fail(*arguments: str, **environment: str) -> str:
    done = run(*arguments, **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_doctor_tells_what_the_machine_has() -> None:
    out = succeed("doctor")
    assert tconv3d.__version__ in out
    for isa in MACHINE["isas"]:
        assert isa["name"] in out
        assert isa["available"] or isa["why"] in out
    for name in MACHINE["implementations"]:
        assert name in out


def test_doctor_names_the_forced_instruction_set() -> None:
    """As a user runs it."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "TCONV3D_ISA": "portable"}
    done = subprocess.run([sys.executable, "-m", "tconv3d", "doctor"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert any("portable" in line and "chosen" in line for line in done.stdout.splitlines())


def test_an_instruction_set_that_there_is_not_is_told_without_a_traceback() -> None:
    done = run_apart(["doctor"], TCONV3D_ISA="abacus")
    assert done.returncode == 1
    assert "not usable: tconv3d's operators cannot be used: TCONV3D_ISA=abacus is not known" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_gpu_is_named_in_any_case() -> None:
    lines = [succeed("explain", PROBLEM, "--device", "cuda", "--gpu", name) for name in ("h200", "H200")]
    assert lines[0] == lines[1]
    assert "NVIDIA H200" in lines[0]


def test_a_listed_problem_has_its_mode_and_layout_once_in_its_name() -> None:
    parser = argparse.ArgumentParser()
    listed.add_arguments(parser)
    names = [case.name for case in listed.listed(parser.parse_args([f"{PROBLEM} tf32 ndhwc", "--dtype", "tf32,bf16"]))]
    assert names == [f"{PROBLEM} tf32 ndhwc", f"{PROBLEM} bf16 ndhwc"]
    cases = listed.listed(parser.parse_args([f"{PROBLEM} bwd_data", "--dtype", "bf16"]))
    assert [case.name for case in cases] == [f"{PROBLEM} bf16 ncdhw bwd_data"]
    cases = listed.listed(parser.parse_args([PROBLEM, "--direction", "fwd,bwd_weight"]))
    assert [case.problem.direction for case in cases] == ["fwd", "bwd_weight"]
    assert [case.name for case in cases] == [f"{PROBLEM} f32 ncdhw", f"{PROBLEM} f32 ncdhw bwd_weight"]
    with pytest.raises(ValueError, match="unknown 'sideways'; known: fwd, bwd_data, bwd_weight"):
        listed.listed(parser.parse_args([PROBLEM, "--direction", "sideways"]))


def test_listed_problems_may_be_named() -> None:
    options = argparse.Namespace(problems=["kb1_70", PROBLEM], dtype="bf16", layout=None, direction=None)
    assert [case.name for case in listed.listed(options)] == ["kb1_70 bf16 ncdhw", f"{PROBLEM} bf16 ncdhw"]


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
def test_both_sides_of_a_case_compute_the_same(direction: str) -> None:
    problem = Problem.parse(f"n2 ci4 co6 3x4x5 k3x2x3 s2x1x2 p1x0x1 op1x0x0 g2 f64 {direction}")
    tensors = make_tensors(problem)
    assert len(tensors) == (2 if direction == "fwd" else 3)
    torch.testing.assert_close(tconv3d_call(problem, *tensors), torch_call(problem, *tensors))


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
@pytest.mark.parametrize("channels", ["ci4 co1", "ci1 co4", "ci1 co1", "ci4 co4 g4"])
def test_one_channel_has_the_layout_that_was_asked_for(channels: str, direction: str) -> None:
    for layout, channel_stride in {"ncdhw": 3 * 4 * 5, "ndhwc": 1}.items():
        problem = Problem.parse(f"n2 {channels} 3x4x5 k3 p1 {layout} {direction}")
        tensors = make_tensors(problem)
        assert {tensor.stride(1) for tensor in (tensors[0], *tensors[2:])} == {channel_stride}
        for tensor in tensors:
            assert tensor.is_contiguous(memory_format=LAYOUTS[layout])
        torch.testing.assert_close(tconv3d_call(problem, *tensors), torch_call(problem, *tensors))
    if direction == "bwd_data" and channels == "ci4 co1":
        assert tconv3d_call(problem, *tensors).is_contiguous(memory_format=torch.channels_last_3d)


def test_gradients_are_asked_for_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, meanwhile in ((None, "1"), ("", "1"), ("0", "0")):
        monkeypatch.delenv("TCONV3D_CUDA_GRADIENTS", raising=False)
        if given is not None:
            monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", given)
        with own_gradients():
            assert os.environ["TCONV3D_CUDA_GRADIENTS"] == meanwhile
        assert os.environ.get("TCONV3D_CUDA_GRADIENTS") == given


def test_a_package_without_its_library_says_what_to_do(tmp_path: Path) -> None:
    """It still imports, so that doctor can run; doctor and the first call name the cure."""
    shutil.copytree(Path(tconv3d.__file__).parent, tmp_path / "tconv3d", ignore=shutil.ignore_patterns("*.so"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    doctor = [sys.executable, "-m", "tconv3d", "doctor"]
    call = [sys.executable, "-c", "import torch, tconv3d; tconv3d.ConvTranspose3d(1, 1, 1)(torch.ones(1, 1, 1, 1, 1))"]
    for command, error in ((doctor, "not usable"), (call, "ImportError")):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 1
        assert error in done.stdout + done.stderr
        assert "pip install" in done.stdout + done.stderr


def test_explain_says_what_runs_and_why() -> None:
    out = succeed("explain", PROBLEM)
    for word in ("n1 ci2 co3", "k3", "3x5x7", MACHINE["implementations"][0], "GFLOP"):
        assert word in out


def test_explain_shows_the_epilogue() -> None:
    assert "clamp(min=-1) div(2)" in succeed("explain", PROBLEM, "--epilogue", "clamp(min=-1) div(2)", "--no-measure")


def test_explain_tells_why_others_were_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCONV3D_IMPL", "reference")
    out = succeed("explain", PROBLEM, "--no-measure")
    assert "reference" in out
    assert "TCONV3D_IMPL" in out


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """`explain ... | head -1`, where the pipe is closed before the command has written all."""
    command = [sys.executable, "-u", "-m", "tconv3d", "explain", PROBLEM]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_terminal_without_unicode_is_no_error() -> None:
    text = succeed("explain", "net_vnet", "--device", "cuda", "--gpu", "a100", PYTHONIOENCODING="ascii")
    assert re.search(r"\d \?s", text), text  # microseconds


def test_an_interrupt_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_command, "run", interrupted)
    done = run("bench")
    assert (done.returncode, done.stderr) == (130, "tconv3d bench: interrupted\n")


def test_explain_finds_problems_by_name() -> None:
    assert "96x96x96" in succeed("explain", "kb1_70", "--no-measure")


def test_explain_takes_lists_of_dtypes_layouts_and_directions() -> None:
    asked = ("--dtype", "f32,bf16", "--layout", "ncdhw,ndhwc", "--direction", "fwd,bwd_data", "--no-measure")
    lines = succeed("explain", PROBLEM, *asked).splitlines()
    shown = [line.split()[-3:] for line in lines if line.startswith("problem")]
    modes = [(dtype, layout) for dtype in ("f32", "bf16") for layout in ("ncdhw", "ndhwc")]
    assert shown == [[*mode, direction] for mode in modes for direction in ("fwd", "bwd_data")]


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("explain", "n1 ci2 co3 2x3x4 k3 q7"), "q7"),
        (("explain", "n1 ci2"), "lacks co (output channels), the input's extents, k (kernel), as in 'n8 ci48 co24"),
        (("explain", "ci2 co3 4x4 k3"), "'4x4', which is not understood; one is 'n8 ci48 co24"),
        (("explain", PROBLEM, "--device", "gpu"), "--device is cpu or cuda, got gpu"),
        (("explain", PROBLEM, "--device", "mps"), "--device is cpu or cuda, got mps"),
        (("explain", "n1 ci2 co3 1x1x1 k1 p1"), "-1"),
        (("explain", PROBLEM, "--epilogue", "blur"), "blur"),
        (("explain", PROBLEM, "--layout", "nhwc"), "unknown 'nhwc'; known: ncdhw, ndhwc"),
        (("explain", PROBLEM, "--dtype", "int8"), "unknown 'int8'; known: tf32, f32"),
        (("explain", "kb1_7"), "'baselines' has no problem named 'kb1_7': did you mean kb1_7"),
        (("explain", "something"), "no problem named 'something': it has kb1_58, "),
        (("precompile", "kb1_7", "--gpu", "h200"), "'baselines' has no problem of that name: did you mean kb1_7"),
        (("bench", "--filter", "no_such_problem"), "no_such_problem"),
        (("bench", "--problems", "no_such_file"), "no_such_file"),
    ],
    ids=str,
)
def test_bad_input_gets_one_line(arguments: tuple[str, ...], mentions: str) -> None:
    assert mentions in fail(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("no_such_command",),
        ("bench", "--directions", "sideways"),
        ("bench", "--filter", "("),
        ("bench", "--seconds", "0"),
        ("bench", "--seconds", "nan"),
        ("bench", "--repeats", "0"),
        ("bench", "--threads", "-1"),
        ("bench", "--json", "."),
        ("bench", "--json", f"{__file__}/out.json"),
        ("bench", "--plot", "out.txt"),
        ("demo", "--seconds", "-1"),
        ("tune", PROBLEM, "--record", "."),
    ],
    ids=str,
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    """What cannot be used is told before anything is measured."""
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """Standard output, standard error and folder of one small run."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.txt").write_text(
        f"# two problems\ntiny: {PROBLEM}   # small\n\nother: {PROBLEM} op1   # small too\n"
    )
    done = run(
        "bench", "--problems", str(folder / "tiny.txt"), "--filter", "tiny", "--layout", "ncdhw,ndhwc",
        "--direction", "fwd,bwd_weight", "--seconds", "0.01",
        "--json", str(folder / "out.json"), "--plot", str(folder / "out.png"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr, folder


def test_bench_shows_progress_and_a_table(bench: tuple[str, str, Path]) -> None:
    out, progress, _ = bench
    assert "4/4" in progress
    assert "tiny" in out
    assert "other" not in out


def test_bench_writes_every_number_as_json(bench: tuple[str, str, Path]) -> None:
    data = json.loads((bench[2] / "out.json").read_text())
    text = json.dumps(data)
    rows = next(value for value in data.values() if isinstance(value, list) and value and "tconv3d_ms" in value[0])
    assert len(rows) == 4
    assert {(row["direction"], row["layout"]) for row in rows} == {
        (direction, layout) for direction in ("fwd", "bwd_weight") for layout in ("ncdhw", "ndhwc")
    }
    assert all(row["tconv3d_ms"] > 0 and row["torch_ms"] > 0 and row["agrees"] for row in rows)
    assert tconv3d.__version__ in text


def test_bench_writes_a_plot(bench: tuple[str, str, Path]) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib, which is not installed")
    assert (bench[2] / "out.png").read_bytes().startswith(b"\x89PNG")
