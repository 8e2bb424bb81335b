"""Programs that no task should be won by: wrong answers, and deeds that the confinement forbids.

`check` runs them on a task. The bodies fit any function; what a task takes for an answer is its own affair, so an
accepted one is only wrong if it beats the start.
"""

ANSWERS = {
    "nothing": "pass",
    "a text": "return 'seven'",
    "an object": "return object()",
    "a function": "return print",
    "a mapping": "return {'a': object()}",
    "NaN": "return float('nan')",
    "infinity": "return float('inf')",
    "an array of NaN": "return np.full(3, np.nan)",
    "an array of six dimensions": "return np.zeros((2,) * 6)",
    "a list within itself": "x = []; x.append(x); return x",
    "a million numbers": "return [1.0] * 1_000_000",
    "an array of a gigabyte": "return np.zeros(1 << 27)",
    "an integer of a thousand digits": "return 10 ** 1000",
    "many texts, one of them long": "return ['x' * 1_000_000] + [''] * 50_000",
}
"""What the function returns, by name."""

DEEDS = {
    "it never ends": "while True: pass",
    "it ends its process": "import os; os._exit(0)",
    "it raises SystemExit": "raise SystemExit(0)",
    "it reads a file of the user's": "return len(open('/etc/passwd').read())",
    "it writes a file": "open('/tmp/atlas-gym-check', 'w').write('x')",
    "it opens a connection": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "it starts a process": "import subprocess; subprocess.run(['true'])",
    "it kills its parent": "import os; os.kill(os.getppid(), 9)",
}
"""What it does instead of answering, by name."""


def nonsense(function: str) -> dict[str, str]:
    """All of these programs for a function, by name."""
    head = f"import numpy as np\n\n\ndef {function}(*arguments, **keywords):\n    "
    return {name: f"{head}{body}\n" for name, body in {**ANSWERS, **DEEDS}.items()}
