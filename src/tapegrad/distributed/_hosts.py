"""Which machines a job runs on, and how many ranks on each: from --hosts or a host file."""

from __future__ import annotations

import pathlib
import re


class BadHosts(ValueError):
    """Machines that cannot be read or do not fit."""


def parse(line: str, where: str) -> tuple[str, int | None]:
    """(name, ranks there if it says) of `name`, `name:2` or `name slots=2`."""
    found = re.fullmatch(r"([^\s:]+)(?::(\d+))?((?:\s+\w[\w-]*=\S+)*)", line.strip())
    if found is None:
        raise BadHosts(
            f"{where}: cannot read {line.strip()!r}; a host is NAME, NAME:2 or NAME slots=2"
        )
    slots = re.search(r"\bslots=(\d+)", found[3])
    number = found[2] or (slots and slots[1])
    return found[1], int(number) if number else None


def read(hosts: str, hostfile: str) -> list[tuple[str, int | None]]:
    """The machines of the options, in their order; none if none are named."""
    if hosts:
        return [parse(host, "--hosts") for host in hosts.split(",")]
    if not hostfile:
        return []
    try:
        lines = pathlib.Path(hostfile).read_text().splitlines()
    except OSError as error:
        raise BadHosts(f"--hostfile: {error}") from None
    texts = [(i + 1, line.partition("#")[0]) for i, line in enumerate(lines)]
    found = [parse(text, f"{hostfile}:{i}") for i, text in texts if text.strip()]
    if not found:
        raise BadHosts(f"--hostfile: {hostfile} names no host")
    return found


def placed(hosts: str, hostfile: str, nnodes: str, each: int | None) -> list[tuple[str, int]]:
    """(machine, ranks) of the job. `each` is --nproc-per-node, None if it was not given."""
    named = read(hosts, hostfile)
    least, _, most = nnodes.partition(":")
    if not least.isdigit() or (most and not most.isdigit()):
        raise BadHosts(f"--nnodes: a number or MIN:MAX is expected, got {nnodes!r}")
    wanted = int(most or least)
    if not named:
        if wanted > 1:
            raise BadHosts(
                f"--nnodes={nnodes} needs their names: --hosts a,b or --hostfile FILE. The job is "
                "started once, on one of them; ssh reaches the others"
            )
        return [("", each or 1)]
    if wanted > 1:
        if wanted > len(named):
            raise BadHosts(f"--nnodes={nnodes}, but {len(named)} hosts are named")
        named = named[:wanted]
    return [(host, each or slots or 1) for host, slots in named]
