"""The KernelBench files: the interface that its harness expects, PyTorch's parameters and PyTorch's results."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

FOLDER = Path(__file__).resolve().parents[2] / "kernelbench"
PROBLEM_FILES = sorted(path.stem for path in FOLDER.glob("level*.py"))
SMALL = {"batch_size": 2, "depth": 3, "height": 4, "width": 5}


@pytest.fixture(autouse=True)
def folder_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("reference", "run", *PROBLEM_FILES):
        sys.modules.pop(name, None)


@pytest.fixture(params=PROBLEM_FILES)
def problem(request):
    return request.param


def small_module(problem, monkeypatch):
    module = importlib.import_module(problem)
    for name, value in SMALL.items():
        monkeypatch.setattr(module, name, value)
    return module


def build_both(problem, module):
    """As the harness does: the same seed before each constructor."""
    reference = importlib.import_module("reference").reference
    torch.manual_seed(0)
    model = module.ModelNew(*module.get_init_inputs())
    torch.manual_seed(0)
    return model, reference(problem, module.get_init_inputs())


def test_all_problems_are_there():
    assert tuple(PROBLEM_FILES) == importlib.import_module("reference").PROBLEMS
    assert len(PROBLEM_FILES) == 8


def test_sizes_are_those_of_kernelbench():
    inputs = {
        "level1_58": (16, 32, 16, 32, 64),
        "level1_61": (8, 48, 64, 64, 64),
        "level1_68": (16, 32, 64, 64, 64),
        "level1_70": (8, 48, 96, 96, 96),
        "level1_72": (8, 32, 12, 24, 48),
        "level1_73": (4, 32, 32, 64, 128),
        "level1_77": (16, 32, 16, 32, 32),
        "level2_100": (16, 64, 24, 48, 48),
    }
    for problem, shape in inputs.items():
        module = importlib.import_module(problem)
        extents = (module.batch_size, module.in_channels, module.depth, module.height, module.width)
        assert extents == shape, problem


def test_parameters_equal_the_reference(problem, monkeypatch):
    model, plain = build_both(problem, small_module(problem, monkeypatch))
    state, plain_state = model.state_dict(), plain.state_dict()
    assert list(state) == list(plain_state)
    for name in state:
        assert torch.equal(state[name], plain_state[name]), name


def test_output_equals_the_reference(problem, monkeypatch):
    module = small_module(problem, monkeypatch)
    model, plain = build_both(problem, module)
    for _ in range(2):
        (x,) = module.get_inputs()
        assert x.shape == (2, module.in_channels, 3, 4, 5)
        exact = plain.double()(x.double())
        torch.testing.assert_close(model(x).double(), exact, rtol=1e-5, atol=1e-5)


def test_73_runs_without_groups(monkeypatch):
    module = small_module("level1_73", monkeypatch)
    convolution = module.ModelNew(*module.get_init_inputs()).conv_transpose3d
    assert convolution.groups == 1
    assert convolution.output_padding == (0, 0, 0)


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append((str(function), args))
        return function(*args, **(kwargs or {}))


def test_100_is_one_fused_call(monkeypatch):
    module = small_module("level2_100", monkeypatch)
    model = module.ModelNew(*module.get_init_inputs())
    (x,) = module.get_inputs()
    with torch.no_grad(), Recorder() as recorder:
        model(x)
    assert [name for name, _ in recorder.calls] == ["tconv3d.fwd.default"]
    assert "clamp(min=-1) div(2)" in recorder.calls[0][1]


def test_100_runs_no_other_operator_inside(monkeypatch):
    """A dispatch mode does not see what an op calls from C++; the profiler does."""
    module = small_module("level2_100", monkeypatch)
    model = module.ModelNew(*module.get_init_inputs())
    (x,) = module.get_inputs()
    with torch.no_grad(), torch.autograd.profiler.profile() as profiler:
        model(x)
    names = {event.name for event in profiler.function_events}
    assert names == {"tconv3d::fwd", "aten::empty"}


def test_100_clamps(monkeypatch):
    """The problem's own data never reaches the clamp; larger inputs do."""
    module = small_module("level2_100", monkeypatch)
    model, plain = build_both("level2_100", module)
    x = 100 * torch.randn(2, module.in_channels, 3, 4, 5)
    y = model(x)
    assert (y == -0.5).any()
    torch.testing.assert_close(y, plain(x), rtol=1e-5, atol=1e-4)


def test_runner_accepts_77_and_rejects_a_wrong_result(monkeypatch, capsys):
    module = small_module("level1_77", monkeypatch)
    run = importlib.import_module("run")
    monkeypatch.setattr(run, "TIMED_SECONDS", 0.0)
    monkeypatch.setattr(sys, "argv", ["run.py", "--problem", "77"])
    assert run.main() == 0
    assert "1 of 1 within the error bound" in capsys.readouterr().out

    forward = module.ModelNew.forward
    monkeypatch.setattr(module.ModelNew, "forward", lambda self, x: forward(self, x) + 1e-3)
    assert run.main() == 1
    assert "OVER BOUND" in capsys.readouterr().out
