"""The KernelBench files: the interface that its harness expects, PyTorch's parameters and PyTorch's results."""

import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

FOLDER = Path(__file__).resolve().parents[2] / "kernelbench"
PROBLEM_FILES = sorted(path.stem for path in FOLDER.glob("level*.py"))
#: The least extents that the two max pools of level 2's problem 78 leave a voxel of.
SMALL = {"batch_size": 2, "depth": 4, "height": 5, "width": 6}

SIZES = {
    "level1_58": (16, 32, 16, 32, 64),
    "level1_61": (8, 48, 64, 64, 64),
    "level1_68": (16, 32, 64, 64, 64),
    "level1_70": (8, 48, 96, 96, 96),
    "level1_72": (8, 32, 12, 24, 48),
    "level1_73": (4, 32, 32, 64, 128),
    "level1_77": (16, 32, 16, 32, 32),
    "level2_3": (32, 32, 16, 32, 32),
    "level2_13": (16, 16, 32, 128, 128),
    "level2_15": (16, 16, 16, 32, 32),
    "level2_20": (16, 32, 16, 32, 32),
    "level2_26": (128, 32, 16, 16, 16),
    "level2_34": (32, 32, 16, 32, 32),
    "level2_38": (32, 32, 32, 64, 64),
    "level2_49": (16, 32, 16, 32, 32),
    "level2_50": (128, 3, 16, 32, 32),
    "level2_58": (128, 3, 16, 32, 32),
    "level2_60": (128, 3, 16, 32, 32),
    "level2_61": (16, 64, 32, 32, 32),
    "level2_72": (64, 3, 32, 32, 32),
    "level2_74": (16, 16, 16, 32, 32),
    "level2_77": (16, 64, 16, 32, 32),
    "level2_78": (16, 32, 32, 32, 32),
    "level2_89": (128, 3, 16, 32, 32),
    "level2_96": (128, 3, 16, 32, 32),
    "level2_100": (16, 64, 24, 48, 48),
}
#: What the convolution does as it stores; nothing in the others.
FUSED = {
    "level2_3": "channel_add",
    "level2_26": "residual_add",
    "level2_38": "clamp(min=0,max=1)",
    "level2_50": "channel_mul",
    "level2_60": "silu",
    "level2_61": "relu",
    "level2_74": "leaky_relu(0.2) channel_mul leaky_relu(0.2)",
    "level2_77": "mul(2)",
    "level2_96": "mul(0.5)",
    "level2_100": "clamp(min=-1) div(2)",
}


@pytest.fixture(autouse=True)
def folder_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("measure", "reference", "run", "tuned", *PROBLEM_FILES):
        sys.modules.pop(name, None)


@pytest.fixture(params=PROBLEM_FILES)
def problem(request):
    return request.param


def small_module(problem, monkeypatch):
    module = importlib.import_module(problem)
    for name in ("batch_size", *importlib.import_module("reference").free_extents(problem)):
        monkeypatch.setattr(module, name, SMALL[name])
    return module


def build_both(problem, module):
    """As the harness does: the same seed before each constructor, and no call of eval()."""
    reference = importlib.import_module("reference").reference
    torch.manual_seed(0)
    model = module.ModelNew(*module.get_init_inputs())
    torch.manual_seed(0)
    return model, reference(problem, module.get_init_inputs())


def assert_relatively_close(result, exact):
    """Within 1e-5 of the largest value: those of problem 38 lie far below 1."""
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5 * exact.abs().max().item())


def test_all_problems_are_there():
    reference = importlib.import_module("reference")
    assert list(reference.PROBLEMS) == list(SIZES)
    assert sorted(SIZES) == PROBLEM_FILES


def test_sizes_are_those_of_kernelbench(problem):
    module = importlib.import_module(problem)
    extents = (module.batch_size, module.in_channels, module.depth, module.height, module.width)
    assert extents == SIZES[problem]


def test_inputs_have_the_sizes_of_the_file(problem, monkeypatch):
    module = small_module(problem, monkeypatch)
    x, *more = module.get_inputs()
    assert x.shape == (2, module.in_channels, module.depth, module.height, module.width)
    assert len(more) == len(inspect.signature(module.ModelNew.forward).parameters) - 2


def test_parameters_equal_the_reference(problem, monkeypatch):
    model, plain = build_both(problem, small_module(problem, monkeypatch))
    state, plain_state = model.state_dict(), plain.state_dict()
    assert list(state) == list(plain_state)
    for name in state:
        assert torch.equal(state[name], plain_state[name]), name
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]


def test_output_equals_the_reference(problem, monkeypatch):
    module = small_module(problem, monkeypatch)
    model, plain = build_both(problem, module)
    plain.double()
    for _ in range(2):
        inputs = module.get_inputs()
        exact = plain(*(x.double() for x in inputs))
        result = model(*inputs)
        assert result.shape == exact.shape
        assert_relatively_close(result, exact)
    # A batch norm has counted two batches and kept their statistics.
    for (name, value), (_, exact) in zip(model.named_buffers(), plain.named_buffers()):
        torch.testing.assert_close(value, exact, rtol=1e-5, atol=1e-6, check_dtype=False, msg=name)


def test_gradients_equal_the_reference(problem, monkeypatch):
    """Through the fused steps, their operands and what is detached in problem 20."""
    module = small_module(problem, monkeypatch)
    model, plain = build_both(problem, module)
    plain.double()
    inputs = module.get_inputs()
    exact = plain(*(x.double() for x in inputs))
    direction = torch.randn(exact.shape, dtype=torch.double)
    (exact * direction).sum().backward()
    (model(*inputs) * direction.float()).sum().backward()
    largest = max(parameter.grad.abs().max().item() for parameter in plain.parameters() if parameter.grad is not None)
    for (name, parameter), (_, other) in zip(model.named_parameters(), plain.named_parameters()):
        if other.grad is None:
            assert parameter.grad is None, name
        else:
            torch.testing.assert_close(parameter.grad.double(), other.grad, rtol=1e-3, atol=1e-4 * largest, msg=name)


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append((str(function), args))
        return function(*args, **(kwargs or {}))


def test_convolves_once_with_the_steps_that_fuse(problem, monkeypatch):
    module = small_module(problem, monkeypatch)
    model = module.ModelNew(*module.get_init_inputs())
    inputs = module.get_inputs()
    with torch.no_grad(), Recorder() as recorder:
        model(*inputs)
    convolutions = [(name, args) for name, args in recorder.calls if "conv" in name]
    assert [name.rpartition(".")[0] for name, _ in convolutions] == ["tconv3d.fwd"]
    assert [text for text in convolutions[0][1] if isinstance(text, str)] == [FUSED.get(problem, "")]


def test_compiles_into_one_graph(problem, monkeypatch):
    module = small_module(problem, monkeypatch)
    model, plain = build_both(problem, module)
    inputs = module.get_inputs()
    torch._dynamo.reset()
    with torch.no_grad():
        result = torch.compile(model, backend="eager", fullgraph=True)(*inputs)
        assert_relatively_close(result, plain.double()(*(x.double() for x in inputs)))


def test_73_runs_without_groups(monkeypatch):
    module = small_module("level1_73", monkeypatch)
    convolution = module.ModelNew(*module.get_init_inputs()).conv_transpose3d
    assert convolution.groups == 1
    assert convolution.output_padding == (0, 0, 0)


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


def run_main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["run.py", "--seconds", "0", *arguments])
    return importlib.import_module("run").main()


def test_runner_accepts_78_and_rejects_a_wrong_result(monkeypatch, capsys, tmp_path):
    module = small_module("level2_78", monkeypatch)
    file = tmp_path / "results.json"
    assert run_main(monkeypatch, "--only", "78", "--json", str(file)) == 0
    assert "1 of 1 within the error bound" in capsys.readouterr().out
    (result,) = json.loads(file.read_text())["results"]
    assert result["shape"] == [2, 32, 4, 5, 6]
    assert result["speedup_over_best"] == result["torch_ms"] / result["tconv3d_ms"]
    assert result["compiled_ms"] is None

    forward = module.ModelNew.forward
    monkeypatch.setattr(module.ModelNew, "forward", lambda self, x: forward(self, x) + 1e-3)
    assert run_main(monkeypatch, "--only", "L2-78") == 1
    assert "OVER BOUND" in capsys.readouterr().out


def test_runner_sees_an_error_of_small_values(monkeypatch, capsys):
    """All values of problem 38 are far smaller than KernelBench's tolerance of 1e-4, even at these extents."""
    module = small_module("level2_38", monkeypatch)
    for name in ("depth", "height", "width"):
        monkeypatch.setattr(module, name, 32)
    model = module.ModelNew(*module.get_init_inputs())
    assert model(*module.get_inputs()).max() < 1e-4
    forward = module.ModelNew.forward
    monkeypatch.setattr(module.ModelNew, "forward", lambda self, x: forward(self, x) * 1.001)
    assert run_main(monkeypatch, "--only", "38") == 1
    assert "OVER BOUND" in capsys.readouterr().out


def test_runner_compares_double_precision_of_the_whole_batch(monkeypatch):
    """The statistics of a batch norm are those of the batch, though the convolution takes a sample at a time."""
    module = small_module("level2_15", monkeypatch)
    _, plain = build_both("level2_15", module)
    inputs = module.get_inputs()
    exact = importlib.import_module("measure").in_double(plain, inputs)
    torch.testing.assert_close(exact, plain.double()(*(x.double() for x in inputs)), rtol=1e-12, atol=1e-12)


def test_tf32_rounds_input_and_weight_of_the_convolution_alone(monkeypatch):
    measure = importlib.import_module("measure")
    module = small_module("level2_26", monkeypatch)
    _, plain = build_both("level2_26", module)
    x, add_input = module.get_inputs()
    rounded = measure.in_double(plain, [x, add_input], tf32=True)
    plain.double()
    plain.conv_transpose.weight.data = measure.rounded_to_tf32(plain.conv_transpose.weight)
    torch.testing.assert_close(rounded, plain(measure.rounded_to_tf32(x.double()), add_input.double()))
    kept = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, 1 + 3 * 2**-12])
    assert measure.rounded_to_tf32(kept).tolist() == [1.0, 1 + 2**-10, 1.0, 1 + 2**-10]


def test_tuned_pytorch_is_timed_in_both_layouts(monkeypatch):
    """On a GPU this happens in a process of its own."""
    tuned, measure = importlib.import_module("tuned"), importlib.import_module("measure")
    settings = measure.Settings("cpu", "small", seconds=0.0, compile=False)
    for problem in ("level2_38", "level2_74"):
        small_module(problem, monkeypatch)
    lines = list(tuned.answers(["level2_38\n", "level2_74\n"], settings))
    assert [sorted(json.loads(line)) for line in lines] == [["tuned_ms", "tuned_ndhwc_ms"]] * 2


def test_a_side_that_fails_is_named_and_left_out(capsys):
    measure = importlib.import_module("measure")

    def fail():
        raise RuntimeError("no engine")

    settings = measure.Settings("cpu", "small", seconds=0.0, compile=False)
    assert list(measure.interleaved_medians({"good": lambda: torch.ones(1), "bad": fail}, settings)) == ["good"]
    assert "bad failed: RuntimeError: no engine" in capsys.readouterr().err


def test_means_and_winners(monkeypatch):
    run = importlib.import_module("run")
    rows = [
        run.Result("a", [1], 0.0, 0.0, 1.0, torch_ms=8.0, tconv3d_ms=2.0, compiled_ms=4.0, tconv3d_compiled_ms=1.0,
                   tuned_ms=6.0, tuned_ndhwc_ms=5.0, tuned_compiled_ms=3.0),
        run.Result("b", [1], 2.0, 0.0, 1.0, torch_ms=2.0, tconv3d_ms=2.0, compiled_ms=1.0, tconv3d_compiled_ms=4.0,
                   tuned_ms=2.0, tuned_ndhwc_ms=5.0, tuned_compiled_ms=3.0),
    ]  # fmt: skip
    assert [row.best_ms for row in rows] == [3.0, 1.0]
    assert [row.ours_ms for row in rows] == [1.0, 2.0]
    lines = run.summary(rows).splitlines()
    assert (
        lines[0]
        == "geometric mean, tconv3d:            2.00x eager, 1.58x tuned, 0.87x compiled, 0.87x the best of them"
    )
    assert lines[2].endswith("1.22x the best of them")
    assert lines[3] == "1 of 2 within the error bound, 1 of 2 faster than the best PyTorch"


def test_a_number_of_both_levels_names_no_problem(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_main(monkeypatch, "--only", "58")
    assert "'58' names level1_58 and level2_58: say L1-58 or L2-58" in capsys.readouterr().err
