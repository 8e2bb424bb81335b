"""The worker's side of `toy`: guess a number, step by step, in every replica."""

import struct


def serve(load, pipe):
    replicas, steps = struct.unpack("<II", pipe.receive(8))
    guessers = [load() for _ in range(replicas)]
    pipe.send(b"")
    for t in range(steps):
        hints = struct.unpack(f"<{replicas}d", pipe.receive(8 * replicas))
        guesses = [float(guess(hint, t)) for guess, hint in zip(guessers, hints, strict=True)]
        pipe.send(struct.pack(f"<{replicas}d", *guesses))
