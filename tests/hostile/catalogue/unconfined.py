"""Attacks that achieve nothing even where nothing confines them, by name, and why. All others must succeed there."""

import sys

_NO_ANSWER = "what is no answer is an error in a plain call too"
_NO_CHANNEL = "a plain call has no channel"
_ERROR = "it is an error like any other"
_UNSEEN = "a plain evaluator's output and streams are read by nobody"

NOTHING_GAINED: dict[str, str] = {
    "replace math and time": "a plain evaluator calls neither",
    "replace the code of the caller": "the caller has called its own functions already",
    "rewrite its arguments": "arguments are numbers or copies in a plain call too",
    "replace attributes of its arguments": "arguments are numbers or copies in a plain call too",
    "import the main module and set its results": "the score is no global variable",
    "infinity": "it is the worst of all scores",
    "a huge integer": _NO_ANSWER,
    "a text": _NO_ANSWER,
    "a function": _NO_ANSWER,
    "a generator": _NO_ANSWER,
    "an empty array": _NO_ANSWER,
    "an array of objects": _NO_ANSWER,
    "an object that equals everything": _NO_ANSWER,
    "a coroutine that is never awaited": _NO_ANSWER,
    "an object that runs a command when it is unpickled": "a plain call unpickles nothing",
    "an exception that runs a command when it is unpickled": "a plain call unpickles nothing",
    "finalisers and exit hooks": "the sacrificial evaluator ends without them",
    "the channel read in the driver's stead": _NO_CHANNEL,
    "every descriptor duplicated": _NO_CHANNEL,
    "the channel set to non-blocking": _NO_CHANNEL,
    "requests to the fork server and the pool": _NO_CHANNEL,
    "the driver's receiving replaced": _NO_CHANNEL,
    "the driver's pipe replaced, found in its frame": _NO_CHANNEL,
    "the second replica raises": _ERROR,
    "replicas conspire about what they see": "what replicas see of each other is not hidden",
    "one replica replaces the others' functions": "it makes the program's own answers worse",
    "raise its own limits": "the sacrificial evaluator's limits are hard ones",
    "a flood of output": _UNSEEN,
    "a flood on the error stream": _UNSEEN,
    "a flood of warnings": _UNSEEN,
    "the printing of exceptions replaced": _UNSEEN,
    "the streams replaced": _UNSEEN,
    "instructions for the reader": "only a reader who obeys is harmed",
    "an exception with an evil name": "a plain evaluator reports the text alone",
    "an exception that is its own cause": _ERROR,
    "a chain of ten thousand exceptions": _ERROR,
    "groups of exceptions, nested": _ERROR,
    "a pretended refusal": _ERROR,
    "a pretended lack of memory": _ERROR,
    "load a pickle by numpy": "the file at hand is no pickle",
}
if sys.version_info >= (3, 12):
    NOTHING_GAINED["recursion in C without end"] = "the interpreter bounds it whatever limit is set"

ROOT_ONLY = ("mount a file system", "another root", "another user", "a raw socket", "list a home folder")
"""Those for which the kernel asks for a capability, and a look into root's home: only root could make them succeed."""
