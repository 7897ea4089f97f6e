"""Maintenance: fewer, larger files; nothing that a sealed or planned reader needs goes away.

Readers go by ``arrival_seq``, never by files or versions. Rows go only with a freeze.
"""

import logging

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from penstock.config.pipeline import Pipeline
from penstock.core.crash import reached
from penstock.lake.cluster.executors import executors_spec
from penstock.lake.cluster.load import load_spec
from penstock.lake.history.checkpoint import drop_former_checkpoints
from penstock.lake.history.thinning import thin
from penstock.lake.log.register import SPECS
from penstock.lake.log.rescalings import rescalings_spec
from penstock.lake.storage.commit import BY_HAND, KEEP_HOURS, Table, checkpoint, writer
from penstock.lake.storage.damage import require_whole
from penstock.lake.storage.durable import sync_commits
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

FEW_FILES, SMALL = 8, 4 << 20
MANY_FILES, LARGE = 32, 100 << 20
"""So many files that are smaller become files of about that size, bytes. In two tiers: a row is
written again a few times, not at each run, and replaced files take little room."""


def maintain_pipeline(tables: Tables, pipeline: Pipeline) -> dict[str, int]:
    """Compact and vacuum the tables of one pipeline.

    Returns:
        Rows that went with a freeze and files compacted by table, and former checkpoints removed,
        where there were any.
    """
    gone = thin(tables, pipeline)
    done = {name: maintain_table(spec) for name, spec in specs_of(tables, pipeline).items()}
    done["checkpoints"] = drop_former_checkpoints(tables)
    return gone | {name: files for name, files in done.items() if files}


def specs_of(tables: Tables, pipeline: Pipeline) -> dict[str, TableSpec]:
    """All tables of a pipeline and of its steps as they are defined now, by what they are."""
    specs: dict[str, TableSpec] = {
        "events": tables.events(pipeline.types),
        "quarantine": tables.quarantine(),
        "blocks": tables.blocks(),
        "plans": tables.plans(),
        "audits": tables.audits(),
        "corrections": tables.corrections(),
        "decisions": tables.decisions(),
        "registry": tables.registry(),
        "freezes": tables.freezes(),
        "merges": tables.merges(),
        "load": load_spec(tables),
        "executors": executors_spec(tables),
        **{spec.name: spec for spec in (of(tables) for of in (*SPECS, rescalings_spec))},
    }
    specs |= {f"side/{name}": tables.side(side) for name, side in pipeline.side_tables.items()}
    for step in pipeline.specs:
        specs[f"answers/{step.id}"] = tables.answers(step)
        specs[f"merged/{step.id}"] = tables.merged(step)
        specs[f"late/{step.id}"] = tables.late(step, [])
        specs[f"excluded/{step.id}"] = tables.excluded(step)
        specs[f"control/{step.id}"] = tables.control(step)
        specs[f"coverage/{step.id}"] = tables.coverage(step)
    return specs


def maintain_table(spec: TableSpec) -> int:
    """Compact and vacuum one table; returns how many files it compacted."""
    table = Table(spec)
    if not table.exists():
        return 0
    require_whole(spec.uri)  # what cannot be read is named, not summed up
    delta = table.refresh()
    table.settle()
    before = delta.version()
    # A copy's files are sorted by window, and are joined by merges.
    tiers = () if spec.name == "merged" else ((FEW_FILES, SMALL), (MANY_FILES, LARGE))
    removed = sum(_compact(delta, spec, *tier) for tier in tiers)
    reached("before vacuum")
    delta.vacuum(  # in full: also what no commit ever named, once a writer has had a day for that
        KEEP_HOURS, dry_run=False, enforce_retention_duration=False, full=True,
        post_commithook_properties=BY_HAND,
    )  # fmt: skip
    sync_commits(spec.uri, range(before + 1, delta.version() + 1))
    reached("after vacuum")
    checkpoint(delta, spec.uri)
    return removed


def _compact(delta: DeltaTable, spec: TableSpec, files: int, size: int) -> int:
    """Make large files of small ones, where there are so many; returns how many went."""
    sizes = pa.table(delta.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    if sum(each < size for each in sizes) < files:
        return 0
    before = delta.version()
    reached("before compact")
    try:
        done = delta.optimize.compact(
            target_size=size,
            writer_properties=writer(spec.schema),
            post_commithook_properties=BY_HAND,
        )
        reached("within compact")
        sync_commits(spec.uri, range(before + 1, delta.version() + 1))
    except CommitFailedError:  # a writer was faster: the next run compacts
        log.info("not compacted this time table=%s", spec.uri)
        return 0
    return int(done["numFilesRemoved"])
