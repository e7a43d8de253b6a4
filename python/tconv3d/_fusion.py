"""What stands behind a transposed convolution in an nn.Sequential, as part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ._activations import as_epilogue, has_hooks, why_no_steps
from .epilogue import Epilogue, Step
from .nn import ConvTranspose3d


class Fused(nn.Identity):
    """Stands in an ``nn.Sequential`` for an activation that the transposed convolution before it computes."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        # Not as a submodule: it has no state, and the names of all other modules must stay.
        self.activation: nn.Module
        self.__dict__["activation"] = activation

    def extra_repr(self) -> str:
        """The activation that it stands for."""
        return repr(self.activation)


class FusedBehindNorm(Fused):
    """The same behind a BatchNorm3d, which the convolution computes in eval mode alone."""

    def __init__(self, activation: nn.Module, folded: FoldedNorm) -> None:
        super().__init__(activation)
        self.folded = folded

    def forward(self, input: Tensor) -> Tensor:
        """`input`, which has been through the activation; the activation itself where it has not."""
        dst: Tensor = input if self.folded.applies() else self.activation(input)
        return dst


class FusedBatchNorm3d(nn.BatchNorm3d):
    """A BatchNorm3d that the transposed convolution before it computes in eval mode."""

    def forward(self, input: Tensor) -> Tensor:
        """`input`, which has been normalised; in training mode, the normalised `input`."""
        return super().forward(input) if self.training else input


@dataclass(eq=False, repr=False)
class FoldedNorm:
    """A BatchNorm3d in eval mode, and the activations behind it, as steps of the epilogue before it.

    The normalisation is one factor and one summand per channel. They are computed at each call, from a few values per
    channel: so loading a state_dict, moving the model and training on are as right as before.
    """

    norm: nn.BatchNorm3d
    parent: nn.Sequential
    key: str
    steps: tuple[Step, ...]
    text: str

    def applies(self) -> bool:
        """In training mode the batch's own mean and variance are not known before the convolution is. A module that
        was put in the place of the norm, as `nn.SyncBatchNorm.convert_sync_batchnorm` does, computes for itself."""
        return not self.norm.training and self.parent._modules.get(self.key) is self.norm

    def tensors(self, weight: Tensor) -> list[Tensor]:
        """Factor and summand of each channel, in the type and on the device of the convolution's weight, which
        nn.DataParallel copies without the norm."""
        norm = self.norm
        factor = torch.rsqrt(_running(norm.running_var) + norm.eps)
        if norm.weight is not None:
            factor = factor * norm.weight
        summand = -_running(norm.running_mean) * factor
        if norm.bias is not None:
            summand = summand + norm.bias
        return [factor.to(weight), summand.to(weight)]

    def then(self, activation: nn.Module) -> None:
        """Takes an activation that follows."""
        chain = Epilogue(self.steps, (None, None)).then(activation)
        self.steps, self.text = chain.steps, chain.text

    def __repr__(self) -> str:
        return f"BatchNorm3d as {self.text}"

    @classmethod
    def at(cls, place: _Place) -> FoldedNorm:
        """The normalisation alone."""
        chain = Epilogue().channel_mul().channel_add()
        norm = cast(nn.BatchNorm3d, place.parent._modules[place.key])
        return cls(norm, place.parent, place.key, chain.steps, chain.text)


class _Place(NamedTuple):
    """A module where a Sequential calls it."""

    parent: nn.Sequential
    key: str
    name: str


def fuse(model: nn.Module, convolutions: set[nn.Module]) -> dict[nn.Module, list[str]]:
    """Fuses what follows the `convolutions` in a Sequential; says what, by the convolution."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    done: dict[nn.Module, list[str]] = {}
    # Inner Sequentials are parts of outer ones, which come first.
    for prefix, sequence in model.named_modules():
        if isinstance(sequence, nn.Sequential) and _runs_in_order(sequence):
            places = list(_places(sequence, prefix))
            for index, place in enumerate(places):
                convolution = place.parent._modules[place.key]
                if convolution in convolutions - done.keys() and _may_be_fused(convolution, uses):
                    done[convolution] = _fuse_behind(convolution, places[index + 1 :], uses)
    return done


def unfuse(model: nn.Module) -> None:
    """Puts everything back."""
    for module in list(model.modules()):
        for key, child in module._modules.items():
            if isinstance(child, Fused):
                module._modules[key] = child.activation
        if type(module) is FusedBatchNorm3d:
            module.__class__ = nn.BatchNorm3d  # type: ignore[assignment]
        own = module.__dict__.pop("_own_steps", None)
        if own is not None:
            _set_steps(module, own[0])
        module.__dict__.pop("_folded", None)


def _fuse_behind(convolution: Any, places: list[_Place], uses: Counter[Any]) -> list[str]:
    """Takes the modules that follow, up to the first that is no step."""
    fused: list[str] = []
    for place in places:
        module = place.parent._modules[place.key]
        folded = convolution._folded
        if module is None or isinstance(module, (Fused, FusedBatchNorm3d)) or uses[place.parent] != 1:
            return fused
        label = type(module).__name__
        if not fused and folded is None and _is_folded_norm(module, uses, convolution):
            convolution._folded = FoldedNorm.at(place)
            module.__class__ = FusedBatchNorm3d
        elif why_no_steps(module) is None:
            _take(convolution, module)
            stands = Fused(module) if folded is None else FusedBehindNorm(module, folded)
            place.parent._modules[place.key] = stands.train(module.training)
        else:
            return fused
        fused.append(f"{place.name} ({label})")
    return fused


def _take(convolution: Any, activation: nn.Module) -> None:
    if convolution._folded is not None:
        convolution._folded.then(activation)
        return
    if "_own_steps" not in convolution.__dict__:
        convolution._own_steps = (convolution._epilogue_steps,)
    steps = as_epilogue(activation, "accelerate").steps
    _set_steps(convolution, (*(convolution._epilogue_steps or ()), *steps))


def _set_steps(convolution: Any, steps: tuple[Step, ...] | None) -> None:
    """Activations have no tensors, so that the tensors of the steps stay."""
    if steps is None:
        del convolution._epilogue_steps, convolution._epilogue_text  # the class has the defaults
    else:
        convolution._epilogue_steps, convolution._epilogue_text = steps, Epilogue(steps).text


def _places(sequence: nn.Sequential, prefix: str) -> Iterator[_Place]:
    """The modules in the order in which they run, those of inner Sequentials among them."""
    for key, module in sequence._modules.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(module, nn.Sequential) and _runs_in_order(module):
            yield from _places(module, name)
        else:
            yield _Place(sequence, key, name)


def _runs_in_order(sequence: nn.Sequential) -> bool:
    own = type(sequence).forward is not nn.Sequential.forward or "forward" in vars(sequence)
    return not own and not has_hooks(sequence)


def _may_be_fused(module: nn.Module, uses: Counter[Any]) -> bool:
    """A module in several places, or one with hooks, shows its own output to others."""
    return isinstance(module, ConvTranspose3d) and uses[module] == 1 and not has_hooks(module)


def _is_folded_norm(module: nn.Module, uses: Counter[Any], convolution: ConvTranspose3d) -> bool:
    return (
        type(module) is nn.BatchNorm3d
        and not module.training
        and module.running_mean is not None
        and module.num_features == convolution.out_channels
        and uses[module] == 1
        and not has_hooks(module)
    )


def _running(statistic: Tensor | None) -> Tensor:
    assert statistic is not None  # fuse() takes no BatchNorm3d without
    return statistic
