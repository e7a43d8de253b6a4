"""What each KernelBench problem computes, in plain PyTorch: the modules that ModelNew is checked and timed against.

The names of parameters and submodules, and the order in which they draw random numbers, are those of KernelBench's
Models. A constructor takes the problem's init inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# A parameter of KernelBench's Model that never reaches the convolution.
IGNORED = "ignored"

# The positional parameters of the level-1 models, by nn.ConvTranspose3d's names.
_LEADING = ("in_channels", "out_channels", "kernel_size", "stride", "padding")
PARAMETERS = {
    "level1_58": (*_LEADING, "output_padding", "groups", "bias"),
    "level1_61": (*_LEADING, "output_padding", "groups", "bias"),
    "level1_68": (*_LEADING, "output_padding", "groups", "bias"),
    "level1_70": (*_LEADING, "output_padding", "dilation", "groups", "bias"),
    "level1_72": (*_LEADING, "output_padding", "groups", "bias"),
    "level1_73": (*_LEADING, IGNORED, "groups", "bias"),
    "level1_77": (*_LEADING, "dilation", "bias"),
}


class Convolution(nn.Module):
    def __init__(self, problem: str, init_inputs: Sequence[Any]) -> None:
        super().__init__()
        options = {"bias": False, **dict(zip(PARAMETERS[problem], init_inputs))}
        options.pop(IGNORED, None)
        self.conv_transpose3d = nn.ConvTranspose3d(**options)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose3d(x)


class Chain(nn.Module):
    """Begins with the convolution, as all problems of level 2 do, but for the pooling in front of 38's."""

    def __init__(self, *convolution: Any, bias: bool = True) -> None:
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(*convolution, bias=bias)


class SumLayerNormAvgPoolGelu(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, sum_weight, norm_shape, pool_kernel_size = init_inputs
        super().__init__(*convolution)
        self.sum_weight = nn.Parameter(torch.tensor(sum_weight))
        self.norm = nn.LayerNorm(norm_shape)
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x) + self.sum_weight
        return F.gelu(self.avg_pool(self.norm(x)))


class MeanAddSoftmaxTanhScale(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, scaling_factor = init_inputs
        super().__init__(*convolution)
        self.bias = nn.Parameter(torch.randn(1, self.conv_transpose.out_channels, 1, 1, 1))
        self.scaling_factor = scaling_factor

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x).mean(dim=2, keepdim=True)
        x = torch.softmax(x + self.bias, dim=1)
        return torch.tanh(x) * self.scaling_factor


class BatchNormSubtractMean(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        super().__init__(*init_inputs)
        self.batch_norm = nn.BatchNorm3d(self.conv_transpose.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.batch_norm(self.conv_transpose(x))
        return x - torch.mean(x, dim=(2, 3, 4), keepdim=True)


class SumResidualMultiplyResidual(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, bias_shape = init_inputs
        super().__init__(*convolution)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x)
        original = x.clone().detach()
        x = x + self.bias
        x = x + original
        x = x * original
        return x + original


class AddInputHardswish(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, bias_shape = init_inputs
        super().__init__(*convolution)
        # Never used, but it draws random numbers and is a parameter.
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: Tensor, add_input: Tensor) -> Tensor:
        x = self.conv_transpose(x) + add_input
        return x * F.hardswish(x)


class LayerNormGeluScale(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, bias, eps, scaling_factor = init_inputs
        super().__init__(*convolution, bias=bias)
        self.layer_norm = nn.LayerNorm(self.conv_transpose.out_channels, eps=eps)
        self.scaling_factor = scaling_factor

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.layer_norm(self.conv_transpose(x))) * self.scaling_factor


class AvgPoolClampSoftmaxScale(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, pool_kernel_size, clamp_min, clamp_max = init_inputs
        super().__init__(*convolution)
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)
        self.bounds = (clamp_min, clamp_max)
        self.scale = nn.Parameter(torch.ones(1, self.conv_transpose.out_channels, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.clamp(self.conv_transpose(self.avg_pool(x)), *self.bounds)
        flat = torch.softmax(x.flatten(2), dim=2)
        return flat.view(x.shape) * self.scale


class SoftmaxSigmoid(Chain):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(torch.softmax(self.conv_transpose(x), dim=1))


class ScaleAvgPoolAddScale(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, scale1, scale2, bias_shape = init_inputs
        super().__init__(*convolution)
        self.scale1 = nn.Parameter(torch.tensor(scale1))
        self.avg_pool = nn.AvgPool3d(2)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale2 = nn.Parameter(torch.tensor(scale2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avg_pool(self.conv_transpose(x) * self.scale1)
        return (x + self.bias) * self.scale2


class LogSumExpSwishSubtractClamp(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, _bias_shape = init_inputs
        super().__init__(*convolution)
        self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.logsumexp(self.conv_transpose(x), dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6
        return torch.clamp(x - self.bias, min=-1, max=1)


class SwishGroupNormHardswish(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, groups, eps = init_inputs
        super().__init__(*convolution)
        self.group_norm = nn.GroupNorm(groups, self.conv_transpose.out_channels, eps)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_transpose(x)
        x = torch.sigmoid(x) * x
        return F.hardswish(self.group_norm(x))


class ReluGroupNorm(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, groups, bias = init_inputs
        super().__init__(*convolution, bias=bias)
        self.group_norm = nn.GroupNorm(groups, self.conv_transpose.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.group_norm(torch.relu(self.conv_transpose(x)))


class BatchNormAvgPoolAvgPool(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, _bias_shape = init_inputs
        super().__init__(*convolution)
        self.batch_norm = nn.BatchNorm3d(self.conv_transpose.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.batch_norm(self.conv_transpose(x))
        return F.avg_pool3d(F.avg_pool3d(x, 2), 2)


class LeakyReluMultiplyLeakyReluMaxPool(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, multiplier_shape = init_inputs
        super().__init__(*convolution)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv_transpose(x), 0.2)
        x = F.leaky_relu(x * self.multiplier, 0.2)
        return F.max_pool3d(x, 2)


class ScaleBatchNormGlobalAvgPool(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, scale_factor = init_inputs
        super().__init__(*convolution)
        self.scale_factor = scale_factor
        self.batch_norm = nn.BatchNorm3d(self.conv_transpose.out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.batch_norm(self.conv_transpose(x) * self.scale_factor)
        return F.adaptive_avg_pool3d(x, 1)


class MaxPoolMaxPoolSum(Chain):
    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool3d(F.max_pool3d(self.conv_transpose(x), 2), 3)
        return torch.sum(x, dim=1, keepdim=True)


class MaxPoolSoftmaxSubtractSwishMax(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, pool_kernel_size, pool_stride, pool_padding = init_inputs
        super().__init__(*convolution)
        self.max_pool = nn.MaxPool3d(pool_kernel_size, pool_stride, pool_padding)
        self.subtract = nn.Parameter(torch.randn(self.conv_transpose.out_channels))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.softmax(self.max_pool(self.conv_transpose(x)), dim=1)
        x = x - self.subtract.view(1, -1, 1, 1, 1)
        x = torch.sigmoid(x) * x
        return torch.max(x, dim=1)[0]


class ScaleMaxPoolGlobalAvgPoolClamp(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, scale, maxpool_kernel_size = init_inputs
        super().__init__(*convolution)
        self.scale = scale
        self.maxpool = nn.MaxPool3d(maxpool_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv_transpose(x) * self.scale)
        return torch.clamp(F.adaptive_avg_pool3d(x, 1), min=0, max=1)


class ClampDivide(Chain):
    def __init__(self, *init_inputs: Any) -> None:
        *convolution, min_value, divisor = init_inputs
        super().__init__(*convolution)
        self.min_value, self.divisor = min_value, divisor

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(self.conv_transpose(x), min=self.min_value) / self.divisor


LEVEL2: dict[str, Callable[..., nn.Module]] = {
    "level2_3": SumLayerNormAvgPoolGelu,
    "level2_13": MeanAddSoftmaxTanhScale,
    "level2_15": BatchNormSubtractMean,
    "level2_20": SumResidualMultiplyResidual,
    "level2_26": AddInputHardswish,
    "level2_34": LayerNormGeluScale,
    "level2_38": AvgPoolClampSoftmaxScale,
    "level2_49": SoftmaxSigmoid,
    "level2_50": ScaleAvgPoolAddScale,
    "level2_58": LogSumExpSwishSubtractClamp,
    "level2_60": SwishGroupNormHardswish,
    "level2_61": ReluGroupNorm,
    "level2_72": BatchNormAvgPoolAvgPool,
    "level2_74": LeakyReluMultiplyLeakyReluMaxPool,
    "level2_77": ScaleBatchNormGlobalAvgPool,
    "level2_78": MaxPoolMaxPoolSum,
    "level2_89": MaxPoolSoftmaxSubtractSwishMax,
    "level2_96": ScaleMaxPoolGlobalAvgPoolClamp,
    "level2_100": ClampDivide,
}
PROBLEMS = (*PARAMETERS, *LEVEL2)

# The layer norms of these run over W and fix its extent.
_NORMALISED_OVER_WIDTH = ("level2_3", "level2_34")


def reference(problem: str, init_inputs: Sequence[Any]) -> nn.Module:
    return LEVEL2[problem](*init_inputs) if problem in LEVEL2 else Convolution(problem, init_inputs)


def free_extents(problem: str) -> tuple[str, ...]:
    """The spatial extents that may be cut, by their names in the problem's file."""
    return ("depth", "height") if problem in _NORMALISED_OVER_WIDTH else ("depth", "height", "width")
