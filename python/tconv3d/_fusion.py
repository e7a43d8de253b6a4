"""What stands behind a transposed convolution in an nn.Sequential, as part of it."""

# TorchScript reads comments at the ends of lines, those for mypy too.
# mypy: disable-error-code="attr-defined"
from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ._activations import are_all_heard, has_hooks, has_own_forward, why_no_steps
from .epilogue import Epilogue, Step
from .nn import ConvTranspose3d


class Fused(nn.Identity):
    """Stands in an ``nn.Sequential`` for an activation that the transposed convolution before it computes."""

    def __init__(self, activation: nn.Module, tail: Tail) -> None:
        super().__init__()
        # Not as a submodule: it has no state, and the names of all other modules must stay.
        self.activation: nn.Module
        self.__dict__["activation"] = activation
        self.tail = tail
        _share_hooks(activation, self)

    def forward(self, input: Tensor) -> Tensor:
        """`input`, which has been through the activation; the activation itself where it has not."""
        if torch.jit.is_scripting():
            return input  # the convolution's script has the tail, or there is no script
        dst: Tensor = input if self.tail.applies() else self.activation.forward(input)
        return dst

    def extra_repr(self) -> str:
        """The activation that it stands for."""
        return repr(self.activation)


class FusedBatchNorm3d(nn.BatchNorm3d):
    """A BatchNorm3d that the transposed convolution before it computes in eval mode."""

    tail: Tail

    def forward(self, input: Tensor) -> Tensor:
        """`input`, which has been normalised; the normalised `input` where it has not."""
        return input if self.tail.applies() else super().forward(input)


@dataclass(eq=False, repr=False)
class Tail:
    """What stands behind a transposed convolution, as steps behind its epilogue.

    A BatchNorm3d in eval mode is one factor and one summand per channel. They are computed at each call, from a few
    values per channel: so loading a state_dict, moving the model and training on are as right as before.
    """

    norm: nn.BatchNorm3d | None = None
    steps: tuple[Step, ...] = ()
    text: str = ""
    #: What must stay as it was: the convolution, what it computes, and containers of some of them.
    places: tuple[_Place, ...] = ()
    #: The innermost Sequential that holds all of these.
    whole: nn.Sequential | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Tail:
        """Copied with a part of what it holds, it is none: so the copy of a part is what the part was before."""
        copied = memo[id(self)] = Tail()
        if id(self.whole) in memo:
            for name, value in vars(self).items():
                setattr(copied, name, copy.deepcopy(value, memo))
        return copied

    def applies(self) -> bool:
        """Whether the convolution computes it: all that stand in it ask, and compute for themselves where it does not.
        In training mode the batch's own mean and variance are not known before the convolution is. A module that was
        put in the place of another does not ask, and one with hooks shows its own output to others."""
        if not self.places or (self.norm is not None and self.norm.training) or are_all_heard():
            return False
        for parent, key, module, size, _, _ in self.places:
            if parent._modules.get(key) is not module or len(module._modules) != size or has_hooks(module):
                return False
        return True

    def end(self) -> None:
        """Lets what is left of it, in containers that are not restored, compute for itself."""
        self.places = ()

    def tensors(self, weight: Tensor) -> list[Tensor]:
        """Factor and summand of each channel, in the type and on the device of the convolution's weight, which
        nn.DataParallel copies without the norm."""
        norm = self.norm
        assert norm is not None
        factor = torch.rsqrt(_running(norm.running_var) + norm.eps)
        if norm.weight is not None:
            factor = factor * norm.weight
        summand = -_running(norm.running_mean) * factor
        if norm.bias is not None:
            summand = summand + norm.bias
        return [factor.to(weight), summand.to(weight)]

    def __repr__(self) -> str:
        return f"fused{'' if self.norm is None else ' in eval mode'}: {self.text}"


class _Place(NamedTuple):
    """A module where a Sequential calls it."""

    parent: nn.Sequential
    key: str
    module: nn.Module
    #: How many modules that one holds: what is appended to an inner Sequential may stand before what was fused.
    size: int
    name: str
    #: Those of the inner Sequentials around it.
    around: tuple[_Place, ...]

    def put(self, module: nn.Module) -> _Place:
        """With `module` instead."""
        self.parent._modules[self.key] = module
        return self._replace(module=module, size=len(module._modules))


class Behind(NamedTuple):
    """What stands behind a convolution in a Sequential."""

    #: What the convolution computes.
    fused: list[str]
    #: A BatchNorm3d that it would compute if that were in eval mode.
    in_training: str | None


def fuse(model: nn.Module, convolutions: set[nn.Module]) -> dict[nn.Module, Behind]:
    """Fuses what follows the `convolutions` in a Sequential; says what, by the convolution."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    done: dict[nn.Module, Behind] = {}
    # Inner Sequentials are parts of outer ones, which come first.
    for prefix, sequence in model.named_modules():
        if isinstance(sequence, nn.Sequential) and _runs_in_order(sequence):
            places = list(_places(sequence, prefix))
            for index, place in enumerate(places):
                convolution = place.module
                if convolution in convolutions - done.keys() and _may_be_fused(convolution, uses):
                    behind = places[index + 1 :]
                    in_training = _norm_in_training(convolution, behind, uses)
                    done[convolution] = Behind(_fuse_behind(place, behind, sequence, uses), in_training)
    return done


def unfuse(model: nn.Module) -> None:
    """Puts everything back, except where a forward that was set since may call that of the class: there each module
    computes for itself."""
    for module in list(model.modules()):
        for key, child in module._modules.items():
            if isinstance(child, Fused):
                child.tail.end()
                if not has_own_forward(child):
                    module._modules[key] = child.activation
                    _share_hooks(child, child.activation)
        if type(module) is FusedBatchNorm3d:
            module.tail.end()
            if not has_own_forward(module):
                module.__class__ = nn.BatchNorm3d  # type: ignore[assignment]
                del module.tail
        if "_tail" in vars(module):
            vars(module).pop("_tail").end()


def _fuse_behind(place: _Place, places: list[_Place], whole: Any, uses: Counter[Any]) -> list[str]:
    """Takes the modules that follow in `whole`, up to the first that is no step."""
    convolution: Any = place.module
    following = _following(convolution, places, uses)
    if not following:
        return []
    fused = [_shown(each) for each in following]
    tail, chain = Tail(), Epilogue()
    taken = [place]
    for each in following:
        module: Any = each.module
        if type(module) is nn.BatchNorm3d:
            tail.norm, chain = module, chain.channel_mul().channel_add()
            module.__class__ = FusedBatchNorm3d
            vars(module)["tail"] = tail
            taken.append(each)
        else:
            chain = chain.then(module)
            taken.append(each.put(Fused(module, tail).train(module.training)))
    count = Counter(around for each in taken for around in each.around)
    tail.steps, tail.text = chain.steps, chain.text
    tail.places = (*taken, *(around for around in count if count[around] < len(taken)))
    tail.whole = [whole, *(around.module for around in count if count[around] == len(taken))][-1]
    convolution._tail = tail
    return fused


def _following(convolution: Any, places: list[_Place], uses: Counter[Any]) -> list[_Place]:
    """Those of the `places` that can be fused: a BatchNorm3d may be the first."""
    found: list[_Place] = []
    for place in places:
        if uses[place.parent] != 1:
            break
        is_norm = not found and not place.module.training and _is_norm_of(place.module, uses, convolution)
        if not is_norm and why_no_steps(place.module) is not None:
            break
        found.append(place)
    return found


def _norm_in_training(convolution: Any, places: list[_Place], uses: Counter[Any]) -> str | None:
    for place in places[:1]:
        if uses[place.parent] == 1 and place.module.training and _is_norm_of(place.module, uses, convolution):
            return _shown(place)
    return None


def _shown(place: _Place) -> str:
    return f"{place.name} ({type(place.module).__name__})"


def _share_hooks(giving: nn.Module, taking: nn.Module) -> None:
    """Makes the hooks of one those of the other, and the handles of hooks good for both."""
    vars(taking).update({name: value for name, value in vars(giving).items() if "hook" in name})


def _places(sequence: nn.Sequential, prefix: str, around: tuple[_Place, ...] = ()) -> Iterator[_Place]:
    """The modules in the order in which they run, those of inner Sequentials among them."""
    for key, module in sequence._modules.items():
        if module is None:  # calling the Sequential is an error
            return
        place = _Place(sequence, key, module, len(module._modules), f"{prefix}.{key}" if prefix else key, around)
        if isinstance(module, nn.Sequential) and _runs_in_order(module) and not has_hooks(module):
            yield from _places(module, place.name, (*around, place))
        else:
            yield place


def _runs_in_order(sequence: nn.Sequential) -> bool:
    return type(sequence).forward is nn.Sequential.forward and not has_own_forward(sequence)


def _may_be_fused(module: nn.Module, uses: Counter[Any]) -> bool:
    """A module in several places, or one with hooks, shows its own output to others."""
    return isinstance(module, ConvTranspose3d) and module._tail is None and uses[module] == 1 and not has_hooks(module)


def _is_norm_of(module: nn.Module, uses: Counter[Any], convolution: ConvTranspose3d) -> bool:
    """Whether the convolution can compute it in eval mode."""
    return (
        type(module) is nn.BatchNorm3d
        and module.running_mean is not None
        and module.num_features == convolution.out_channels
        and uses[module] == 1
        and not has_hooks(module)
    )


def _running(statistic: Tensor | None) -> Tensor:
    assert statistic is not None  # fuse() takes no BatchNorm3d without
    return statistic
