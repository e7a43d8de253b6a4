"""What PyTorch promises beyond the values: layouts, views, empty batches, autocast, determinism, memory."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import problem_file
from oracle import DTYPES, LAYOUTS, real_inputs, tconv3d_ops
from problem_file import Problem
from tconv3d import conv_transpose3d

FORMATS = list(LAYOUTS.values())


def whole(*shape: int) -> Tensor:
    return torch.randint(-3, 4, shape).float()


def same_format(ours: Tensor, theirs: Tensor) -> bool:
    return all(ours.is_contiguous(memory_format=f) == theirs.is_contiguous(memory_format=f) for f in FORMATS)


# n, C_in, C_out, kernel. PyTorch leaves oneDNN, and with it this rule, for batch 1; hence batches of 2.
CHANNELS_LAST_SHAPES = [(2, 4, 6, 3), (2, 1, 6, 3), (2, 4, 1, 3), (2, 4, 6, 1), (2, 1, 1, 1)]


@pytest.mark.parametrize("shape", CHANNELS_LAST_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_channels_last_output_rule(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """fp32: dst is channels_last_3d when src or weight is; fp64: never. Exactly as PyTorch's."""
    n, ci, co, k = shape
    for src_format, weight_format in itertools.product(FORMATS, repeat=2):
        src = whole(n, ci, 3, 4, 5).to(dtype).contiguous(memory_format=src_format)
        weight = whole(ci, co, k, k, k).to(dtype).contiguous(memory_format=weight_format)
        ours, theirs = conv_transpose3d(src, weight, stride=2), F.conv_transpose3d(src, weight, stride=2)
        assert same_format(ours, theirs), f"src {src_format}, weight {weight_format}: {ours.stride()}"
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_channels_last_output_rule_of_the_halves(dtype: torch.dtype) -> None:
    """As for fp32 on every machine; PyTorch's depends on what oneDNN has for the processor."""
    for src_format, weight_format in itertools.product(FORMATS, repeat=2):
        src = whole(2, 4, 3, 4, 5).to(dtype).contiguous(memory_format=src_format)
        weight = whole(4, 6, 3, 3, 3).to(dtype).contiguous(memory_format=weight_format)
        last = torch.channels_last_3d in (src_format, weight_format)
        assert conv_transpose3d(src, weight).is_contiguous(memory_format=FORMATS[last])


def test_channels_last_gradients() -> None:
    """The gradient of a channels_last_3d src is channels_last_3d, with the values of the other layout."""
    weight = whole(4, 6, 3, 3, 3)
    grads = []
    for memory_format in FORMATS:
        src = whole(2, 4, 3, 4, 5).contiguous(memory_format=memory_format).requires_grad_()
        dst = conv_transpose3d(src, weight, stride=2)
        dst.backward(torch.ones_like(dst))
        assert src.grad is not None
        assert src.grad.is_contiguous(memory_format=memory_format)
        grads.append(src.grad)
    assert torch.equal(*grads)


VIEWS: dict[str, Callable[[], Tensor]] = {
    "sliced channels": lambda: whole(2, 8, 3, 4, 5)[:, ::2],
    "sliced rows": lambda: whole(2, 4, 3, 8, 5)[:, :, :, 1::2],
    "sliced columns": lambda: whole(2, 4, 3, 4, 9)[..., 2:7],
    "every other column": lambda: whole(2, 4, 3, 4, 10)[..., ::2],
    "offset into storage": lambda: whole(3, 4, 3, 4, 5)[1:],
    "transposed": lambda: whole(2, 4, 5, 4, 3).transpose(2, 4),
    "permuted": lambda: whole(3, 4, 5, 4, 2).permute(4, 3, 0, 1, 2),
    "flipped": lambda: whole(2, 4, 3, 4, 5).flip(4),
    "expanded batch": lambda: whole(1, 4, 3, 4, 5).expand(2, -1, -1, -1, -1),
    "expanded channels": lambda: whole(2, 1, 3, 4, 5).expand(-1, 4, -1, -1, -1),
    "expanded everything": lambda: whole(1, 1, 1, 1, 1).expand(2, 4, 3, 4, 5),
    "sliced channels_last": lambda: whole(2, 8, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d)[:, 2:6],
    "unaligned": lambda: torch.cat([whole(1), whole(480)])[1:].view(2, 4, 3, 4, 5),
    "overlapping": lambda: whole(200).as_strided((2, 4, 3, 4, 5), (1, 2, 3, 4, 5)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_as_src(name: str) -> None:
    src, weight = VIEWS[name](), whole(4, 6, 3, 3, 3)
    before = src.clone()
    assert torch.equal(conv_transpose3d(src, weight, stride=2), F.conv_transpose3d(src, weight, stride=2))
    assert torch.equal(src, before)


@pytest.mark.parametrize("name", VIEWS)
def test_views_as_weight_and_gradient(name: str) -> None:
    """The same views as weight, and as the gradient that autograd hands to backward."""
    view = VIEWS[name]()
    src = whole(2, 2, 3, 3, 3)
    assert torch.equal(conv_transpose3d(src, view), F.conv_transpose3d(src, view))
    results = []
    for function in (conv_transpose3d, F.conv_transpose3d):
        leaf, weight = whole(2, 3, 1, 2, 3), torch.ones(3, 4, 3, 3, 3)
        leaf = torch.ones_like(leaf).requires_grad_()
        weight.requires_grad_()
        results.append(torch.autograd.grad(function(leaf, weight), (leaf, weight), view))
    assert all(map(torch.equal, *results))


def test_a_bias_with_strides() -> None:
    src, weight, bias = whole(2, 4, 3, 4, 5), whole(4, 6, 3, 3, 3), whole(12)[::2]
    assert torch.equal(conv_transpose3d(src, weight, bias), F.conv_transpose3d(src, weight, bias))
    expanded = whole(1).expand(6)
    assert torch.equal(conv_transpose3d(src, weight, expanded), F.conv_transpose3d(src, weight, expanded))


def test_conjugate_and_negative_views() -> None:
    """A lazily negated tensor (the imaginary part of a conjugate) is read with its sign."""
    src = torch.complex(whole(2, 4, 3, 4, 5), whole(2, 4, 3, 4, 5)).conj().imag
    assert src.is_neg()
    weight = whole(4, 6, 3, 3, 3)
    assert torch.equal(conv_transpose3d(src, weight), F.conv_transpose3d(src, weight))


def test_unbatched() -> None:
    src, weight, bias = whole(4, 3, 4, 5), whole(4, 6, 3, 3, 3), whole(6)
    dst = conv_transpose3d(src, weight, bias, stride=2)
    assert dst.shape == (6, 7, 9, 11)
    assert torch.equal(dst, F.conv_transpose3d(src, weight, bias, stride=2))


def test_unbatched_gradients_have_no_batch() -> None:
    src, weight = whole(4, 3, 4, 5).requires_grad_(), whole(4, 6, 3, 3, 3)
    conv_transpose3d(src, weight).sum().backward()
    assert src.grad is not None
    assert src.grad.shape == src.shape


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batch_of_none(dtype: torch.dtype) -> None:
    src = torch.empty(0, 4, 3, 4, 5, dtype=dtype, requires_grad=True)
    weight = torch.randn(4, 6, 3, 3, 3, dtype=dtype, requires_grad=True)
    bias = torch.randn(6, dtype=dtype, requires_grad=True)
    dst = conv_transpose3d(src, weight, bias, stride=2)
    assert dst.shape == (0, 6, 7, 9, 11)
    dst.sum().backward()
    assert src.grad is not None
    assert src.grad.shape == src.shape
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert bias.grad is not None
    assert torch.equal(bias.grad, torch.zeros_like(bias))


def test_requires_grad_of_the_output() -> None:
    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    assert not conv_transpose3d(src, weight).requires_grad
    assert conv_transpose3d(src, weight.clone().requires_grad_()).requires_grad
    with torch.no_grad():
        assert not conv_transpose3d(src, weight.clone().requires_grad_()).requires_grad
    with torch.inference_mode():
        dst = conv_transpose3d(src, weight)
    assert dst.is_inference()


def test_inputs_are_not_written() -> None:
    tensors = [whole(2, 4, 3, 4, 5), whole(4, 6, 3, 3, 3), whole(6)]
    before = [tensor.clone() for tensor in tensors]
    versions = [tensor._version for tensor in tensors]
    for tensor in tensors:
        tensor.requires_grad_()
    conv_transpose3d(*tensors, stride=2).square().sum().backward()
    assert all(map(torch.equal, tensors, before))
    assert [tensor._version for tensor in tensors] == versions


def test_saved_tensors_that_change_before_backward_are_noticed() -> None:
    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2).requires_grad_()
    dst = conv_transpose3d(src, weight)
    src.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        dst.sum().backward()


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("src_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
def test_autocast_equals_pytorchs(autocast: torch.dtype, src_dtype: torch.dtype, weight_dtype: torch.dtype) -> None:
    """Same dtype and values, or the same type of exception, for every mixture of dtypes under autocast."""
    # Signs: PyTorch sums some of these in half precision, where larger numbers are not exact.
    src, weight = whole(2, 4, 3, 4, 5).sign().to(src_dtype), whole(4, 6, 3, 3, 3).sign().to(weight_dtype)
    bias = whole(6).to(weight_dtype)
    with torch.autocast("cpu", dtype=autocast):
        outcomes = [outcome(function, src, weight, bias) for function in (conv_transpose3d, F.conv_transpose3d)]
    ours, theirs = outcomes
    if isinstance(theirs, Tensor):
        assert isinstance(ours, Tensor), ours
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    else:
        assert ours is theirs


def outcome(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor | type:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def test_autocast_gradients_have_the_parameters_dtype() -> None:
    src, weight, bias = (t.requires_grad_() for t in (whole(2, 4, 3, 4, 5), whole(4, 6, 3, 3, 3), whole(6)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dst = conv_transpose3d(src, weight, bias)
    assert dst.dtype == torch.bfloat16
    dst.float().sum().backward()
    assert {tensor.grad.dtype for tensor in (src, weight, bias)} == {torch.float32}


def bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


PROBLEMS = problem_file.read("correctness.txt")
SPLIT = ("blocks_channels_and_row_s2", "blocks_voxels", "blocks_weight_sum", "blocks_upsampling", "depthwise_long_row",
         "kb1_72_small", "ci520_co4", "batch_33_tiny")  # fmt: skip


def assert_same_bits(problem: Problem, dtype: torch.dtype, layout: torch.memory_format, counts: Sequence[int]) -> None:
    inputs = real_inputs(problem).cast(dtype, layout)
    torch.set_num_threads(1)
    first = tconv3d_ops(problem, inputs)
    for count in counts:
        torch.set_num_threads(count)
        for name, one, other in zip(first._fields, first, tconv3d_ops(problem, inputs)):
            assert torch.equal(bits(one), bits(other)), f"{problem.text}: {name} changed with {count} threads"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p.name in SPLIT], ids=lambda problem: problem.name)
def test_same_bits_on_every_run_and_for_any_number_of_threads(problem: Problem, dtype: torch.dtype) -> None:
    """Problems that are split in every way, in each dtype and layout."""
    for layout in FORMATS:
        assert_same_bits(problem, dtype, layout, (1, 2, 3, 4, 7))


def test_same_bits_with_three_threads_for_every_problem() -> None:
    for problem in PROBLEMS:
        assert_same_bits(problem, torch.float32, torch.contiguous_format, (3,))


def test_calls_from_several_python_threads() -> None:
    """The library holds no state that two callers share."""
    from concurrent.futures import ThreadPoolExecutor

    inputs = [(whole(2, 4, 3, 4, 5 + i), whole(4, 6, 3, 3, 3)) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda pair: conv_transpose3d(*pair, stride=2), inputs * 4))
    expected = [F.conv_transpose3d(*pair, stride=2) for pair in inputs * 4]
    assert all(map(torch.equal, results, expected))


def run_python(code: str) -> str:
    """What the code prints, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The operators begin, so that it is they who start a second thread; /proc counts the threads of the process.
ONE_POOL = """
import os, torch, tconv3d
torch.set_num_threads(2)
def threads(): return len(os.listdir("/proc/self/task"))
src, weight = torch.ones(1, 2, 16, 16, 16), torch.ones(2, 16, 3, 3, 3)
counts = [threads()]
tconv3d.conv_transpose3d(src, weight)
counts.append(threads())
torch.ones(128, 128, 128)
counts.append(threads())
print(*counts)
"""


def test_the_threads_are_those_of_pytorch() -> None:
    """A second OpenMP library would have threads of its own, which wait for work beside PyTorch's."""
    before, ours, both = map(int, run_python(ONE_POOL).split())
    assert ours == before + 1
    assert both == ours


PEAK_MEMORY = """
import resource, torch, tconv3d
ops = torch.ops.tconv3d
settings = [1] * 3, [1] * 3, [0] * 3, 1, [1] * 3
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def run(extents):
    src, weight = torch.ones(1, 32, *extents), torch.ones(32, 32, 3, 3, 3)
    grad_dst = torch.ones(1, 32, *extents)
    return {
        "fwd": lambda: ops.fwd(src, weight, None, *settings, ""),
        "bwd_data": lambda: ops.bwd_data(grad_dst, weight, *settings),
        "bwd_weight": lambda: ops.bwd_weight(src, grad_dst, [3] * 3, *settings, True),
    }[DIRECTION]
run((4, 4, 4))()
big = run((24, 64, 64))
before = peak()
result = big()
print(peak() - before)
"""


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
def test_no_columns_buffer(direction: str) -> None:
    """Beyond the result (12.6 MB) a few megabytes: a columns buffer would take 340."""
    assert int(run_python(f"DIRECTION = {direction!r}\n{PEAK_MEMORY}")) < 48e6


def test_the_empty_epilogue_is_no_epilogue() -> None:
    from tconv3d import Epilogue

    src, weight = whole(1, 2, 3, 3, 3), whole(2, 3, 2, 2, 2)
    assert torch.equal(conv_transpose3d(src, weight, epilogue=Epilogue()), conv_transpose3d(src, weight))
