"""KernelBench level 2, problem 77: 3D transposed convolution, scale, batch norm, global average pool.

The convolution scales as it stores. The batch norm takes its statistics from the batch: KernelBench never calls
`eval()`.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 64
out_channels = 128
kernel_size = 5
depth, height, width = 16, 32, 32
scale_factor = 2.0


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scale_factor: float,
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels, out_channels, kernel_size, epilogue=tconv3d.Epilogue().mul(scale_factor)
        )
        self.batch_norm = nn.BatchNorm3d(out_channels, eps, momentum)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.global_avg_pool(self.batch_norm(self.conv_transpose(x)))


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, scale_factor]
