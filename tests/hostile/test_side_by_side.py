"""Two programs of one batch try to meet: one wakes whoever waits on a word of memory that both have mapped."""

import gymnasium
import pytest

import atlas_gym  # noqa: F401 - registers the environments

BOTH = """
import ctypes, platform, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
number = {'x86_64': 202, 'aarch64': 98}[platform.machine()]

def shared_word():
    descriptor = libc.open(np._core._multiarray_umath.__file__.encode(), 0)
    return ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(4096), 1, 1, descriptor, ctypes.c_long(0)))
"""
WAKE = f"""{BOTH}
word, until = shared_word(), time.monotonic() + 3
while time.monotonic() < until:
    libc.syscall(number, word, 1, 1, None, None, 0)
    time.sleep(0.001)

def policy(context, history, t):
    return 0
"""
WAIT = f"""{BOTH}
word, until = shared_word(), time.monotonic() + 3
value = ctypes.c_uint32.from_address(word.value).value if word.value != 2 ** 64 - 1 else 0
second = (ctypes.c_long * 2)(1, 0)
while time.monotonic() < until:
    if libc.syscall(number, word, 0, value, second, None, 0) == 0:
        raise RuntimeError('woken by ' + 'another program')

def policy(context, history, t):
    return 0
"""


def meet(confinement: str) -> list[str]:
    """What became of the two programs, in words."""
    envs = gymnasium.make_vec("ATLAS-Bandit-v0", num_envs=2, replicas=1, confinement=confinement)
    try:
        envs.reset(seed=0)
        infos = envs.step((WAKE, WAIT))[-1]
        return list(infos["final_info"]["feedback"])
    finally:
        envs.close()


@pytest.mark.parametrize(("confinement", "met"), [("default", False), ("unconfined", True)])
def test_programs_of_one_batch_meet_only_unconfined(confinement, met):
    assert ("woken by another program" in meet(confinement)[1]) == met
