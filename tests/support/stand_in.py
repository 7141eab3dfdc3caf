"""A stand-in for an accelerator: tensors that claim another device and are computed on the CPU.

Inside :class:`StandIn` the device ``"accel"`` can be used as ``"cuda"`` would be. What CUDA refuses
is refused: tensors of two devices in one operator (0-dim CPU tensors and CPU indices aside), CPU
generators for tensors of the device, ``numpy()``. Every operator is counted, so that a test can
tell that the work was done there.

Importing this renames PyTorch's spare backend, for the whole process; nothing else changes.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_iter, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("accel")
DEVICE = torch.device("accel", 0)

_CPU_INDICES = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
_TO_PYTHON = ("_local_scalar_dense", "equal", "is_nonzero", "item")


class DeviceMixError(RuntimeError):
    """What CUDA would say."""


class Accelerated(torch.Tensor):
    """A tensor of the device; ``held`` is the CPU tensor behind it."""

    @staticmethod
    def __new__(cls, held):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=DEVICE,
        )
        tensor.held = held
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    @property
    def is_cuda(self):
        """PyG asks so when it collates graphs of a device."""
        return True

    def untyped_storage(self):
        return self.held.untyped_storage()

    def data_ptr(self):
        return self.held.data_ptr()

    def numpy(self, *_, **__):
        raise TypeError("can't convert accel:0 device type tensor to numpy")

    __array__ = numpy

    def tolist(self):
        return self.held.detach().tolist()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                copy._is_param = True
            memo[id(self)] = copy
        return memo[id(self)]

    def __repr__(self, **_):
        return f"Accelerated({self.held!r})"


class StandIn(TorchDispatchMode):
    """Inside it the device is there."""

    def __init__(self):
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = _run(func, args, kwargs or {})
        self.operators += any(isinstance(a, Accelerated) for a in tree_iter(out))
        return out


# ``torch.tensor(..., device=...)`` goes past every mode, straight to the backend.
@torch.library.impl("aten::empty_strided", "PrivateUse1")
def _empty_strided(size, stride, *, dtype=None, **_):
    return Accelerated(torch.empty_strided(size, stride, dtype=dtype))


@torch.library.impl("aten::_copy_from", "PrivateUse1")
def _copy_from(source, target, _non_blocking=False):
    plain = [t.held if isinstance(t, Accelerated) else t for t in (source, target)]
    plain[1].copy_(plain[0])
    return target


def _run(func, args, kwargs):
    name = func.overloadpacket.__name__
    ours, theirs, generators = [], [], []
    for value in tree_iter((args, kwargs)):
        if isinstance(value, Accelerated):
            ours.append(value)
        elif isinstance(value, torch.Tensor):
            theirs.append(value)
        elif isinstance(value, torch.Generator):
            generators.append(value)
    on_device = bool(ours)
    device = kwargs.get("device")
    if device is not None:
        on_device = torch.device(device).type == DEVICE.type
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if on_device and any(generator.device.type == "cpu" for generator in generators):
        raise DeviceMixError(f"{name}: a CPU generator for a tensor of the device")
    if ours and any(value.dim() or name in ("cat", "stack") for value in theirs):
        _check_mix(name, args)
    if name == "copy_" and ours and not isinstance(args[0], Accelerated):
        on_device = False
    plain_args, plain_kwargs = tree_map_only(Accelerated, lambda t: t.held, (args, kwargs))
    out = func(*plain_args, **plain_kwargs)
    if not on_device or name in _TO_PYTHON:
        return out
    out = tree_map_only(torch.Tensor, _wrap, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if ours else out


def _wrap(tensor):
    return tensor if isinstance(tensor, Accelerated) else Accelerated(tensor)


def _check_mix(name, args):
    if name == "copy_":
        return
    if name in _CPU_INDICES and isinstance(args[0], Accelerated):
        values = args[2] if len(args) > 2 else None
        if values is None or isinstance(values, Accelerated) or values.dim() == 0:
            return
    raise DeviceMixError(f"{name}: tensors of two devices, cpu and accel:0")
