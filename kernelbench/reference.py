"""What each KernelBench problem computes, in plain PyTorch: the modules that ModelNew is checked and timed against."""

from collections.abc import Sequence

from torch import Tensor, clamp, nn

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
    def __init__(self, problem: str, init_inputs: Sequence[object]) -> None:
        super().__init__()
        options = {"bias": False, **dict(zip(PARAMETERS[problem], init_inputs))}
        options.pop(IGNORED, None)
        self.conv_transpose3d = nn.ConvTranspose3d(**options)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose3d(x)


class ClampDivide(nn.Module):
    def __init__(self, init_inputs: Sequence[object]) -> None:
        super().__init__()
        *convolution, self.min_value, self.divisor = init_inputs
        self.conv_transpose = nn.ConvTranspose3d(*convolution)

    def forward(self, x: Tensor) -> Tensor:
        return clamp(self.conv_transpose(x), min=self.min_value) / self.divisor


PROBLEMS = (*PARAMETERS, "level2_100")


def reference(problem: str, init_inputs: Sequence[object]) -> nn.Module:
    if problem == "level2_100":
        return ClampDivide(init_inputs)
    return Convolution(problem, init_inputs)
