"""The trusted end of the channel, against everything that a worker may write."""

import os
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.evaluation import CandidateError, Channel, ChannelClosed, Status
from atlas_gym.sandbox.wire import ERROR_HEAD, ERROR_KINDS
from atlas_gym.sandbox.worker import WorkerPipe


class Line:
    """A channel and the descriptors of its other end."""

    def __init__(self):
        self.worker_read, write_fd = os.pipe()
        read_fd, self.worker_write = os.pipe()
        self.channel = Channel(read_fd, write_fd)
        self.pipe = WorkerPipe(self.worker_read, self.worker_write)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()
        for descriptor in (self.worker_read, self.worker_write):
            if descriptor is not None:
                os.close(descriptor)

    def stop_listening(self):
        os.close(self.worker_read)
        self.worker_read = None

    def hang_up(self):
        os.close(self.worker_write)
        self.worker_write = None


@pytest.fixture
def line():
    with Line() as line:
        yield line


def test_messages_larger_than_a_pipe_pass_both_ways(line):
    big = os.urandom(1_000_000)

    def echo():
        line.pipe.send(line.pipe.receive(len(big)))

    thread = threading.Thread(target=echo)
    thread.start()
    assert line.channel.exchange(big, len(big)) == big
    thread.join()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        *((b"\xff" + ERROR_HEAD.pack(kind, 4) + b"oops", name) for kind, name in enumerate(ERROR_KINDS)),
        (b"\xff" + ERROR_HEAD.pack(77, 4) + b"oops", Status.VIOLATION),
        (b"\x07abc", Status.VIOLATION),
    ],
)
def test_what_comes_instead_of_an_answer_has_a_status(line, said, status):
    os.write(line.worker_write, said)
    with pytest.raises(CandidateError) as caught:
        line.channel.receive(8)
    assert caught.value.status == status
    assert said[:1] != b"\xff" or caught.value.text == "oops"


@pytest.mark.parametrize("way", ["send", "exchange", "converse"])
def test_a_failure_reported_before_the_worker_went_is_told_to_who_sends(line, way):
    line.pipe.send_raw(bytes([255]) + ERROR_HEAD.pack(0, 3) + b"why")
    line.stop_listening()
    line.hang_up()
    with pytest.raises(CandidateError, match="why"):
        {
            "send": lambda: line.channel.send(b"abc"),
            "exchange": lambda: line.channel.exchange(b"abc", 1),
            "converse": lambda: line.channel.converse(bytearray(b"abc"), struct.Struct("<BI"), 8),
        }[way]()


def test_a_failure_right_after_an_answer_is_no_second_answer(line):
    head = struct.Struct("<BI")
    line.pipe.send_raw(head.pack(0, 2) + b"ok" + bytes([255]) + ERROR_HEAD.pack(2, 4) + b"full")
    with pytest.raises(CandidateError, match="full") as caught:
        line.channel.converse(bytearray(b"abc"), head, 8)
    assert caught.value.status == Status.MEMORY


def test_a_failure_of_which_only_the_first_byte_has_arrived_is_no_part_of_the_answer(line):
    head = struct.Struct("<BI")
    line.pipe.send_raw(head.pack(0, 2) + b"ok" + bytes([255]))
    threading.Timer(0.2, line.pipe.send_raw, [ERROR_HEAD.pack(2, 4) + b"full"]).start()
    with pytest.raises(CandidateError, match=r"^full"):
        line.channel.converse(bytearray(b"abc"), head, 8)


@pytest.mark.parametrize("said", [b"", b"\0an answer"])
def test_who_listens_no_more_without_a_report_is_gone(line, said):
    line.pipe.send_raw(said)
    line.stop_listening()  # and keeps the other end, on which nothing more comes: that is not waited for
    with pytest.raises(ChannelClosed):
        line.channel.send(b"abc")


@given(noise=st.binary(max_size=40), n=st.integers(0, 12))
def test_noise_never_does_more_than_fail(noise, n):
    with Line() as line:
        os.write(line.worker_write, noise) if noise else None
        line.hang_up()
        try:
            payload = line.channel.receive(n)
        except (CandidateError, ChannelClosed):
            return
        assert noise[: n + 1] == b"\0" + payload
