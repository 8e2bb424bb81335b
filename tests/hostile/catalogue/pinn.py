"""Losses that are none, or worse: for environments whose programs return a torch tensor with a gradient."""

from atlas_gym.evaluation import Status
from tests.hostile.attack import CRASHED, FAILED, HARMLESS, REFUSED, Attack

_CATEGORY = "hostile losses"
_HONEST = "arguments[0].pow(2).mean()"


def _attack(name, code, statuses=HARMLESS, when="always"):
    return Attack(name, _CATEGORY, code, statuses, when)


def _gradient(expression):
    """An honest loss whose backward pass returns `expression` of the incoming gradient."""
    return f"""
        class Forged(torch.autograd.Function):
            @staticmethod
            def forward(context, vector):
                return vector.pow(2).mean()
            @staticmethod
            def backward(context, gradient):
                return {expression}
        return Forged.apply(arguments[0])
        """


ATTACKS = (
    _attack("a constant loss", "return torch.tensor(0.0)", FAILED),
    _attack(
        "a constant loss with a gradient of its own", "return torch.zeros((), requires_grad=True)", FAILED
    ),
    _attack("a loss of zero that depends on everything", "return sum(a.sum() for a in arguments[:3]) * 0.0"),
    _attack("a loss scaled down", f"return {_HONEST} * 1e-30"),
    _attack("an unbounded negative loss", f"return -1e30 * {_HONEST}"),
    _attack("a loss that is not a number", f"return {_HONEST} * float('nan')", FAILED),
    _attack("an infinite loss", f"return {_HONEST} * float('inf')", FAILED),
    _attack("a loss without gradient", f"return {_HONEST}.detach()", FAILED),
    _attack("a number instead of a tensor", f"return float({_HONEST})", FAILED),
    _attack("a vector instead of a number", "return arguments[0] ** 2", FAILED),
    _attack("a complex loss", f"return {_HONEST}.to(torch.complex128)", FAILED),
    _attack("an empty loss", "return torch.zeros(0, requires_grad=True).sum()", FAILED),
    _attack("a loss of one term only", "return arguments[2].pow(2).mean()"),
    _attack("a forged gradient, not finite", _gradient("gradient * float('inf') * torch.ones(50)"), FAILED),
    _attack("a forged gradient of the wrong shape", _gradient("gradient * torch.ones(7)"), FAILED),
    _attack("a forged gradient, huge", _gradient("gradient * 1e300 * torch.ones(50)")),
    _attack("a backward pass that exits", _gradient("os._exit(0)"), FAILED),
    _attack("a backward pass that never ends", _gradient("time.sleep(10 ** 6)"), frozenset({Status.TIMEOUT})),
    _attack("a backward pass that writes a file", _gradient("open(MARKER, 'w')"), REFUSED),
    _attack(
        "its arguments overwritten",
        """
        with torch.no_grad():
            for vector in arguments[:3]:
                vector.zero_()
            for value in arguments[3].values():
                if torch.is_tensor(value):
                    value.fill_(1e9)
        """,
    ),
    _attack(
        "its arguments resized",
        "for vector in arguments[:3]: vector.data = torch.zeros(10 ** 6)",
        FAILED,
    ),
    _attack(
        "hooks on its arguments",
        "arguments[0].register_hook(lambda gradient: gradient * float('nan'))",
        FAILED,
    ),
    _attack("another default type", "torch.set_default_dtype(torch.float16)"),
    _attack("gradients switched off", "torch.set_grad_enabled(False)", FAILED),
    _attack("its own backward pass", f"{_HONEST}.backward(retain_graph=True)"),
    _attack(
        "torch.autograd.grad replaced",
        "torch.autograd.grad = lambda *a, **k: tuple(torch.full((50,), 1e300) for _ in range(3))",
        REFUSED,
        when="load",
    ),
    _attack(
        "tensors replaced",
        "torch.Tensor.numpy = lambda self, *a, **k: np.full(50, np.nan)",
        FAILED,
        when="load",
    ),
    _attack("a tensor that is a subclass", "class T(torch.Tensor): pass\nreturn T(torch.zeros(()))", FAILED),
    _attack("a graph that grows for ever", f"DONE.append(sum(DONE[-3:]) + {_HONEST})\nreturn DONE[-1]"),
    _attack("a huge tensor", "DONE.append(torch.ones(1 << 27))", frozenset({Status.MEMORY}), when="first"),
    _attack("save by torch", "torch.save(torch.ones(3), MARKER)", FAILED, when="first"),
    _attack("load a pickle by torch", "torch.load(CANARY_FILE, weights_only=False)", FAILED, when="first"),
    _attack(
        "threads by torch",
        "torch.set_num_threads(8)\ntorch.ones(1000, 1000) @ torch.ones(1000, 1000)",
        CRASHED,
    ),
    _attack(
        "compile an extension",
        "import torch.utils.cpp_extension as e\ne.load_inline('x', 'int f() {return 1;}', functions=['f'])",
        FAILED,
        when="first",
    ),
    _attack(
        "processes by torch",
        "import torch.multiprocessing as m\nm.spawn(print, nprocs=2)",
        FAILED,
        when="first",
    ),
    _attack("load a library", "torch.ops.load_library(CANARY_FILE)", FAILED, when="first"),
    _attack("shared memory by torch", "torch.ones(3).share_memory_()\nboast('shared')", FAILED, when="first"),
)
