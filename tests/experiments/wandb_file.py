"""Reads an offline `.wandb` file back, without a server.

The file is W&B's own header, then LevelDB's log format (32 KiB blocks; records of crc u32 | length u16 | type u8)
around protobuf records.
"""

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2 as pb

_BLOCK, _HEADER, _FILE_HEADER = 32768, 7, 7
_FULL, _LAST = 1, 4


@dataclass
class WandbFile:
    """What one offline run was told."""

    run_id: str = ""
    name: str = ""
    project: str = ""
    entity: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    tags: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, list[str]] = field(default_factory=dict)
    ended: bool = False


def read_offline(folder: Path, patience_s: float = 60.0) -> list[WandbFile]:
    """Every offline run below a run folder, oldest first; all of them were finished.

    W&B's own process writes the files, on a busy machine some time after `finish` has returned: it is waited for.
    """
    deadline = time.monotonic() + patience_s
    while True:
        runs = [_read(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))]
        if all(run.ended for run in runs):
            return runs
        assert time.monotonic() < deadline, "a run's file has no end"
        time.sleep(0.05)


def _read(path: Path) -> WandbFile:
    found = WandbFile()
    for data in _records(path.read_bytes()):
        _take(found, pb.Record.FromString(data))
    return found


def _take(found: WandbFile, record: pb.Record) -> None:
    kind = record.WhichOneof("record_type")
    if kind == "run":
        run = record.run
        found.run_id, found.group, found.tags = run.run_id, run.run_group, list(run.tags)
        found.name, found.project, found.entity = run.display_name, run.project, run.entity
        found.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
    elif kind == "config":
        found.config |= {item.key: json.loads(item.value_json) for item in record.config.update}
    elif kind == "history":
        found.history.append({_key(item): json.loads(item.value_json) for item in record.history.item})
    elif kind == "summary":
        found.summary |= {_key(item): json.loads(item.value_json) for item in record.summary.update}
    elif kind == "metric":
        found.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
    elif kind == "artifact":
        found.artifacts[record.artifact.type] = [entry.path for entry in record.artifact.manifest.contents]
    elif kind == "exit":
        found.ended = True


def _key(item: Any) -> str:
    return item.key or "/".join(item.nested_key)


def _records(data: bytes) -> Iterator[bytes]:
    assert b":W&B".startswith(data[:4])
    at, parts = _FILE_HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        at += _HEADER
        if at + length > len(data):
            return  # it is being written
        parts += data[at : at + length]
        at += length
        if kind in (_FULL, _LAST):
            yield parts
            parts = b""
