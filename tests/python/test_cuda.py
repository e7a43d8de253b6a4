"""On a GPU: layouts, views, streams, graphs, threads, memory and size. The values are in test_cuda_exact.py."""

from __future__ import annotations

import itertools
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import problem_file
from cuda_tensors import BIAS, DST, SETTINGS, SRC, WEIGHT, forced, full_precision, real, whole
from oracle import LAYOUTS
from tconv3d import Epilogue, _library, conv_transpose3d, fallback

if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA GPU", allow_module_level=True)

BASELINES = {problem.name: problem for problem in problem_file.read("baselines.txt")}
IMPLEMENTATIONS = _library.cuda_machine()["implementations"]
FORMATS = list(LAYOUTS.values())


@pytest.fixture(autouse=True)
def in_full_precision() -> None:
    full_precision()


def test_calls_are_ours() -> None:
    src, weight, bias = real(SRC, WEIGHT, BIAS, dtype=torch.float32)
    assert fallback.reason(src, weight, bias) is None


@pytest.mark.parametrize("implementation", ["", "direct"])
def test_an_empty_batch(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", implementation)
    src, weight, bias = (whole(*shape).requires_grad_() for shape in ((0, 5, 3, 4, 5), WEIGHT, BIAS))
    dst = conv_transpose3d(src, weight, bias, **SETTINGS)
    assert dst.shape == F.conv_transpose3d(src.cpu(), weight.cpu(), **SETTINGS).shape
    dst.sum().backward()
    assert src.grad.shape == src.shape
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert torch.equal(bias.grad, torch.zeros_like(bias))


def test_unbatched() -> None:
    src, weight = whole(*SRC[1:]), whole(*WEIGHT)
    chain = Epilogue().residual_add(whole(*DST[1:])).relu()
    dst = conv_transpose3d(src, weight, **SETTINGS, epilogue=chain)
    assert torch.equal(dst, chain(conv_transpose3d(src[None], weight, **SETTINGS)[0]))


def test_views_that_begin_anywhere() -> None:
    """Strided, misaligned and expanded tensors."""
    big, weight = whole(3, 5, 7, 9, 11), whole(*WEIGHT)
    for src in (
        big[1:, :, 1:-1, ::2, 1:],
        big.transpose(2, 4),
        big[:1].expand(4, *big.shape[1:]),
        big[:, :, 1:, 1:, 1:],
    ):
        assert torch.equal(conv_transpose3d(src, weight), conv_transpose3d(src.contiguous().clone(), weight))
    storage = whole(1 + big.numel())
    src = storage[1:].view(big.shape)
    assert torch.equal(conv_transpose3d(src, weight), conv_transpose3d(src.clone(), weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_channels_last_output_rule(dtype: torch.dtype) -> None:
    """dst is channels_last_3d when src or weight is, but never in fp64: as PyTorch's."""
    for src_format, weight_format in itertools.product(FORMATS, repeat=2):
        src = whole(2, 4, 3, 4, 5, dtype=dtype).contiguous(memory_format=src_format)
        weight = whole(4, 6, 3, 3, 3, dtype=dtype).contiguous(memory_format=weight_format)
        ours, theirs = conv_transpose3d(src, weight, stride=2), F.conv_transpose3d(src, weight, stride=2)
        assert ours.stride() == theirs.stride(), f"src {src_format}, weight {weight_format}"


def test_cuda_graph() -> None:
    src, weight, bias = real((2, 16, 6, 7, 16), (16, 8, 3, 3, 3), (8,), dtype=torch.float32)
    conv_transpose3d(src, weight, bias, 2)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dst = conv_transpose3d(src, weight, bias, 2)
    for _ in range(3):
        src.normal_()
        graph.replay()
        assert torch.equal(dst, conv_transpose3d(src, weight, bias, 2))


def test_capture_of_what_is_not_compiled_is_an_error() -> None:
    # Channel counts of no other test; in memory the kernel is not, whatever the disk cache holds.
    src, weight = real((1, 13, 3, 4, 5), (13, 29, 3, 2, 1), dtype=torch.float32)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(graph):
        conv_transpose3d(src, weight, stride=(1, 3, 2))
    assert conv_transpose3d(src, weight, stride=(1, 3, 2)).isfinite().all()


def test_runs_on_the_current_stream() -> None:
    """On another stream the kernel would read src before the values arrive there."""
    src, weight = whole(2, 16, 6, 7, 16), whole(16, 8, 3, 3, 3)
    expected = conv_transpose3d(src, weight, stride=2)
    late = torch.zeros_like(src)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        late.copy_(src)
        dst = conv_transpose3d(late, weight, stride=2)
    stream.synchronize()
    assert torch.equal(dst, expected)


def test_several_threads() -> None:
    """Each with its own stream and its own problem, the first of which nobody has compiled yet."""
    cases = [(whole(2, 3 + i, 4, 5, 6), whole(3 + i, 11, 2, 3, 2)) for i in range(8)]
    results: list[Tensor | None] = [None] * len(cases)

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                results[index] = conv_transpose3d(*cases[index], stride=2)
            torch.cuda.current_stream().synchronize()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result, (src, weight) in zip(results, cases):
        assert result is not None
        assert torch.equal(result, F.conv_transpose3d(src.double(), weight.double(), stride=2).float())


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("tf32", [False, True])
def test_same_bits_on_every_run(implementation: str, tf32: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", implementation)
    torch.backends.cudnn.allow_tf32 = tf32
    taken = 0
    for dtype, layout in itertools.product((torch.float32, torch.bfloat16), FORMATS):
        src, weight = real((4, 32, 12, 16, 32), (32, 32, 3, 3, 3), dtype=dtype)
        src = src.contiguous(memory_format=layout)
        first = forced(src, weight, padding=1)
        if first is not None:
            assert all(torch.equal(conv_transpose3d(src, weight, padding=1), first) for _ in range(10))
            taken += 1
    assert taken == 4 or implementation != "direct"


@pytest.mark.parametrize("name", ["kb1_70", "kb1_72", "kb2_100", "net_unet3_s2op1", "net_gan_top", "net_depthwise_up"])
def test_extra_memory(name: str) -> None:
    """Beyond the output: at most 16 MiB, in every mode and layout."""
    problem = BASELINES[name]
    for dtype, tf32 in ((torch.float32, True), (torch.float32, False), (torch.bfloat16, False)):
        torch.backends.cudnn.allow_tf32 = tf32
        for layout in FORMATS:
            src = torch.randn(problem.src_shape, device="cuda").to(dtype).contiguous(memory_format=layout)
            weight = torch.randn(problem.weight_shape, device="cuda").to(dtype)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            dst = conv_transpose3d(src, weight, None, *problem.settings)
            extra = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
            assert extra <= 16 << 20, f"{dtype} {layout}: {extra / 2**20:.1f} MiB for {tuple(dst.shape)}"
            del src, dst


@pytest.mark.skipif(torch.cuda.mem_get_info()[0] < 40 << 30, reason="less than 40 GiB of GPU memory are free")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_more_than_2_to_the_31_outputs(k: int, dtype: torch.dtype) -> None:
    torch.backends.cudnn.allow_tf32 = True
    stride, padding, extents = (2, 0, (256, 512, 520)) if k == 2 else (1, 1, (512, 1024, 1030))
    src = torch.randint(-3, 4, (1, 2, *extents), device="cuda", dtype=torch.int8).to(dtype)
    weight = whole(2, 4, k, k, k, dtype=dtype)
    dst = conv_transpose3d(src, weight, stride=stride, padding=padding)
    assert dst.numel() > 2**31
    # Six slices at a time, from src with one more slice on each side: no tap reaches further.
    for first in (0, extents[0] // 2 - 3, extents[0] - 6):
        low, high = max(0, first - 1), min(extents[0], first + 7)
        around = F.conv_transpose3d(src[:, :, low:high].double(), weight.double(), stride=stride, padding=padding)
        inside = around[:, :, (first - low) * stride :][:, :, : 6 * stride]
        assert torch.equal(dst[:, :, first * stride : (first + 6) * stride], inside.round().to(dtype)), first


@pytest.mark.skipif(torch.cuda.mem_get_info()[0] < 40 << 30, reason="less than 40 GiB of GPU memory are free")
def test_gradients_of_more_than_2_to_the_31_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """k2 s2: each voxel of src has outputs of its own, so that slices can be looked at by themselves."""
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", "direct")
    src = torch.randint(-3, 4, (1, 2, 256, 512, 520), device="cuda", dtype=torch.int8).bfloat16()
    grad_dst = torch.randint(-3, 4, (1, 4, 512, 1024, 1040), device="cuda", dtype=torch.int8).bfloat16()
    weight = whole(2, 4, 2, 2, 2, dtype=torch.bfloat16)
    assert grad_dst.numel() > 2**31
    geometry = ([2] * 3, [0] * 3, [0] * 3, 1, [1] * 3)
    grad_src = torch.ops.tconv3d.bwd_data(grad_dst, weight, *geometry)
    for first in (0, 125, 250):
        inside = F.conv3d(grad_dst[:, :, 2 * first : 2 * first + 12].double(), weight.double(), stride=2)
        assert torch.equal(grad_src[:, :, first : first + 6], inside.bfloat16()), first
    grad_weight, _ = torch.ops.tconv3d.bwd_weight(src, grad_dst, [2] * 3, *geometry, False)
    for ci, co, d, h, w in ((0, 0, 0, 0, 0), (1, 3, 1, 1, 1), (0, 2, 1, 0, 1)):
        products = src[0, ci].float() * grad_dst[0, co, d::2, h::2, w::2].float()
        assert grad_weight[ci, co, d, h, w] == products.double().sum().bfloat16()


def test_no_warning_where_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        src, weight = real(SRC, WEIGHT, dtype=torch.float32)
        conv_transpose3d(src, weight, **SETTINGS)
