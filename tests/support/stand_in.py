"""A stand-in for an accelerator: tensors that claim another device and are computed on the CPU.

Inside :class:`StandIn` the device ``"accel"`` can be used as ``"cuda"`` would be. What CUDA refuses
is refused: tensors of two devices in one operator (0-dim CPU tensors and CPU indices aside), CPU
generators for tensors of the device, ``numpy()``. Every operator is counted, so that a test can
tell that the work was done there.

Importing this renames PyTorch's spare backend, for the whole process; nothing else changes.
"""

import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode
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
        self.operators += isinstance(out, Accelerated)
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
    name, writes = _facts(func)
    found = _Found()
    plain_args = [_plain(value, found) for value in args]
    plain_kwargs = {key: _plain(value, found) for key, value in kwargs.items()}
    on_device = found.ours
    if kwargs.get("device") is not None:
        on_device = torch.device(kwargs["device"]).type == DEVICE.type
        plain_kwargs["device"] = torch.device("cpu")
    if on_device and found.generator:
        raise DeviceMixError(f"{name}: a CPU generator for a tensor of the device")
    if found.ours and (found.rows or (found.numbers and name in ("cat", "stack"))):
        _check_mix(name, args)
    out = func(*plain_args, **plain_kwargs)
    if not on_device or name in _TO_PYTHON:
        return args[0] if name == "copy_" else out
    if writes:  # what was written to is returned
        return args[0] if isinstance(args[0], torch.Tensor) else _wrapped(out)
    return _wrapped(out)


@functools.cache
def _facts(func):
    """Name of an operator, and whether it returns what it was given to write to."""
    returns = func._schema.returns
    writes = [r.alias_info is not None and r.alias_info.is_write for r in returns]
    return func.overloadpacket.__name__, any(writes)


class _Found:
    """What an operator was called with."""

    ours = rows = numbers = generator = False


def _plain(value, found):
    if isinstance(value, Accelerated):
        found.ours = True
        return value.held
    if isinstance(value, torch.Tensor):
        found.rows |= value.dim() > 0
        found.numbers |= value.dim() == 0
    elif isinstance(value, list | tuple):
        return type(value)(_plain(item, found) for item in value)
    elif isinstance(value, torch.Generator):
        found.generator |= value.device.type == "cpu"
    return value


def _wrapped(value):
    if isinstance(value, torch.Tensor):
        return Accelerated(value)
    if isinstance(value, list | tuple):
        return type(value)(_wrapped(item) for item in value)
    return value


def _check_mix(name, args):
    if name == "copy_":
        return
    if name in _CPU_INDICES and isinstance(args[0], Accelerated):
        values = args[2] if len(args) > 2 else None
        if values is None or isinstance(values, Accelerated) or values.dim() == 0:
            return
    raise DeviceMixError(f"{name}: tensors of two devices, cpu and accel:0")
