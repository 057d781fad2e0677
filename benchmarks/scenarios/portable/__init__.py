"""The scenarios of the portable API, in the order in which they are measured."""

from __future__ import annotations

from benchmarks.port_jobs import Receiving, Sending
from benchmarks.ports import DirectMemory, DirectPostgres, PortableMemory, PortablePostgres
from benchmarks.scenarios.portable import profiles
from benchmarks.scenarios.portable.matrix import Matrix

BARE = DirectMemory("bare, memory", bare=True)

MATRICES = (
    Matrix("portable-memory-send", Sending, PortableMemory(), DirectMemory(), BARE),
    Matrix("portable-memory-receive", Receiving, PortableMemory(), DirectMemory(), BARE),
    Matrix("portable-postgres-send", Sending, PortablePostgres(), DirectPostgres(), commits=True),
    Matrix("portable-postgres-receive", Receiving, PortablePostgres(), DirectPostgres(), commits=True),
)
ALL = (*(matrix.scenario() for matrix in MATRICES), profiles.SCENARIO)
