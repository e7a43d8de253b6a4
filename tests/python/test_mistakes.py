"""The twelve mistakes that hand-written transposed convolutions make, each one a test."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tconv3d
from tconv3d import conv_transpose3d

BIG_TEST_BYTES = 8 * 2**30


def scatter(src: Tensor, weight: Tensor, stride: int, padding: int, dilation: int) -> Tensor:
    """The definition, as plain loops: each src voxel adds its weighted kernel to dst. Cubic settings, one group."""
    _ci, co, *kernel = weight.shape
    full = [(extent - 1) * stride + dilation * (k - 1) + 1 for extent, k in zip(src.shape[2:], kernel)]
    dst = torch.zeros(src.shape[0], co, *full, dtype=src.dtype)
    for d, h, w in itertools.product(*(range(extent) for extent in src.shape[2:])):
        for kd, kh, kw in itertools.product(*(range(k) for k in kernel)):
            at = (d * stride + kd * dilation, h * stride + kh * dilation, w * stride + kw * dilation)
            dst[:, :, at[0], at[1], at[2]] += src[:, :, d, h, w] @ weight[:, :, kd, kh, kw]
    return dst[:, :, padding : full[0] - padding, padding : full[1] - padding, padding : full[2] - padding]


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 1, 1), (3, 0, 2), (3, 2, 2), (2, 1, 2), (4, 3, 3)])
def test_1_divisibility(stride: int, padding: int, dilation: int) -> None:
    """Tap k reaches output o only if (o + p - k·d) is divisible by the stride, also where that is negative."""
    src = torch.randint(-3, 4, (2, 2, 3, 2, 4)).float()
    weight = torch.randint(-3, 4, (2, 3, 3, 3, 3)).float()
    dst = conv_transpose3d(src, weight, None, stride, padding, dilation=dilation)
    assert torch.equal(dst, scatter(src, weight, stride, padding, dilation))


def test_2_output_padding_enlarges_and_never_shifts() -> None:
    """With output_padding the same values stand at the same indices, and more follow."""
    src, weight = torch.randint(-3, 4, (1, 2, 3, 4, 5)).float(), torch.randint(-3, 4, (2, 3, 3, 3, 3)).float()
    plain = conv_transpose3d(src, weight, None, stride=3, padding=1)
    for extra in ((2, 0, 0), (0, 2, 0), (0, 0, 2), (2, 1, 2)):
        padded = conv_transpose3d(src, weight, None, stride=3, padding=1, output_padding=extra)
        d, h, w = plain.shape[2:]
        assert padded.shape[2:] == (d + extra[0], h + extra[1], w + extra[2])
        assert torch.equal(padded[:, :, :d, :h, :w], plain)


def test_3_weight_layout_is_in_out() -> None:
    """weight is (C_in, C_out / groups, kD, kH, kW): a single 1 in channel c of src writes weight[c] into dst."""
    weight = torch.arange(3 * 5 * 2 * 3 * 4).float().view(3, 5, 2, 3, 4)
    for channel in range(3):
        src = torch.zeros(1, 3, 1, 1, 1)
        src[0, channel] = 1
        assert torch.equal(conv_transpose3d(src, weight)[0], weight[channel])
    with pytest.raises(RuntimeError, match="channels"):
        conv_transpose3d(torch.zeros(1, 3, 1, 1, 1), weight.transpose(0, 1).contiguous())


def test_4_groups_are_blocks_of_channels() -> None:
    """src channel c belongs to group c // (C_in / groups) and writes into that group's block of dst channels alone."""
    groups, ci, co_per_group = 3, 6, 4
    weight = torch.arange(1, ci * co_per_group * 8 + 1).float().view(ci, co_per_group, 2, 2, 2)
    for channel in range(ci):
        src = torch.zeros(1, ci, 1, 1, 1)
        src[0, channel] = 1
        dst = conv_transpose3d(src, weight, groups=groups)[0]
        first = channel // (ci // groups) * co_per_group
        expected = torch.zeros(groups * co_per_group, 2, 2, 2)
        expected[first : first + co_per_group] = weight[channel]
        assert torch.equal(dst, expected)


@pytest.mark.parametrize("dilation", [1, 2, 5, (1, 2, 3)])
def test_5_dilation_is_part_of_the_output_size(dilation: int | tuple[int, int, int]) -> None:
    """Extent (i - 1)·s - 2p + d·(k - 1) + op + 1 in each dimension."""
    src, weight = torch.randn(1, 2, 3, 4, 5), torch.randn(2, 2, 2, 3, 4)
    dst = conv_transpose3d(src, weight, None, 2, 1, 1, 1, dilation)
    per_dim = dilation if isinstance(dilation, tuple) else (dilation,) * 3
    expected = [(i - 1) * 2 - 2 + d * (k - 1) + 1 + 1 for i, d, k in zip((3, 4, 5), per_dim, (2, 3, 4))]
    assert list(dst.shape[2:]) == expected


@pytest.mark.parametrize("extents", [(1, 1, 1), (1, 17, 70), (13, 1, 5), (9, 33, 2), (5, 7, 131)])
def test_6_every_output_is_written(extents: tuple[int, int, int]) -> None:
    """Freed blocks full of NaN are what the allocator hands out next: an output left unwritten shows."""
    src, weight, bias = torch.ones(2, 3, *extents), torch.ones(3, 5, 3, 2, 1), torch.full((5,), 7.0)
    settings = {"stride": (4, 3, 2), "output_padding": (3, 2, 1)}
    expected = F.conv_transpose3d(src, weight, bias, **settings)
    poison = [torch.full_like(expected, float("nan")) for _ in range(4)]
    del poison
    dst = conv_transpose3d(src, weight, bias, **settings)
    assert torch.equal(dst, expected)


def test_7_more_than_2_to_the_31_outputs() -> None:
    """No index of 32 bits: a dst of 2^31 + 98304 values has the right ones at both ends."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    if available < BIG_TEST_BYTES:
        pytest.skip(f"needs 8 GiB of free memory, {available / 2**30:.1f} GiB are free")
    channels, width = 2**15 + 1, 2**16 + 1
    src = torch.randint(-3, 4, (1, 1, 1, 1, width)).bfloat16()
    weight = torch.randint(-3, 4, (1, channels, 1, 1, 1)).bfloat16()
    dst = conv_transpose3d(src, weight)
    assert dst.numel() > 2**31
    for channel in (0, 1, channels // 2, channels - 2, channels - 1):
        assert torch.equal(dst[0, channel, 0, 0], src[0, 0, 0, 0] * weight[0, channel, 0, 0, 0]), channel


def test_8_training_gives_gradients() -> None:
    """loss.backward() fills the gradients of src, weight and bias with PyTorch's values."""
    src = torch.randint(-3, 4, (2, 4, 3, 4, 5)).float()
    mine = tconv3d.ConvTranspose3d(4, 6, 3, stride=2, padding=1)
    theirs = nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1)
    with torch.no_grad():
        for parameter in mine.parameters():
            parameter.copy_(torch.randint(-3, 4, parameter.shape).float())
    theirs.load_state_dict(mine.state_dict())
    sources = [src.clone().requires_grad_() for _ in range(2)]
    for module, leaf in zip((mine, theirs), sources):
        module(leaf).square().sum().backward()
    assert torch.equal(sources[0].grad, sources[1].grad)
    assert sources[0].grad.abs().sum() > 0
    for ours, reference in zip(mine.parameters(), theirs.parameters()):
        assert torch.equal(ours.grad, reference.grad)


def test_9_an_absent_bias_is_none_and_an_empty_one_is_an_error() -> None:
    """None adds nothing; a tensor of no elements is defined, and is no bias for 3 channels."""
    src, weight = torch.randint(-3, 4, (1, 2, 3, 3, 3)).float(), torch.randint(-3, 4, (2, 3, 2, 2, 2)).float()
    assert torch.equal(conv_transpose3d(src, weight, None), conv_transpose3d(src, weight, torch.zeros(3)))
    with pytest.raises(RuntimeError, match="bias"):
        conv_transpose3d(src, weight, torch.empty(0))
    module = tconv3d.ConvTranspose3d(2, 3, 2, bias=False)
    assert module.bias is None
    assert torch.equal(module(src), conv_transpose3d(src, module.weight))


@pytest.mark.parametrize("kernel", [1, 6, 8, 11, (13, 1, 9)])
def test_10_no_kernel_size_is_unsupported(kernel: int | tuple[int, int, int]) -> None:
    """Any kernel size gives the right values, not uninitialised memory."""
    shape = kernel if isinstance(kernel, tuple) else (kernel,) * 3
    src, weight = torch.randint(-3, 4, (1, 2, 2, 3, 4)).float(), torch.randint(-3, 4, (2, 3, *shape)).float()
    expected = F.conv_transpose3d(src.double(), weight.double(), stride=2)
    assert torch.equal(conv_transpose3d(src, weight, stride=2).double(), expected)


def test_10_errors_raise_with_python_optimisation() -> None:
    """Checks are no asserts: `python -O`, which removes asserts, still raises."""
    code = (
        "import torch, tconv3d\n"
        "try: tconv3d.conv_transpose3d(torch.zeros(1, 5, 2, 2, 2), torch.zeros(4, 3, 2, 2, 2))\n"
        "except RuntimeError as error: print('raised', error)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, env=environment())
    assert done.stdout.startswith("raised"), done.stdout + done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_11_bias_is_a_parameter_and_construction_compiles_nothing() -> None:
    """`bias` stays a Parameter or None, and a constructor starts no compiler."""
    module = tconv3d.ConvTranspose3d(2, 3, 3, bias=True)
    assert isinstance(module.bias, nn.Parameter)
    assert list(module.state_dict()) == ["weight", "bias"]
    assert "bias" not in vars(module)
    processes = []
    original, subprocess.Popen = subprocess.Popen, lambda *args, **kwargs: processes.append(args)
    try:
        for _ in range(100):
            tconv3d.ConvTranspose3d(2, 3, 3, bias=False)
    finally:
        subprocess.Popen = original
    assert processes == []


def test_12_kernel_size_is_depth_height_width() -> None:
    """kernel_size is (kD, kH, kW): so are the weight's extents, and so the output grows."""
    module = tconv3d.ConvTranspose3d(1, 1, (2, 3, 5), bias=False)
    assert module.weight.shape == (1, 1, 2, 3, 5)
    with torch.no_grad():
        module.weight.copy_(torch.arange(30).view(1, 1, 2, 3, 5))
    assert torch.equal(module(torch.ones(1, 1, 1, 1, 1)), module.weight)
    assert module(torch.ones(1, 1, 4, 4, 4)).shape == (1, 1, 5, 6, 8)
