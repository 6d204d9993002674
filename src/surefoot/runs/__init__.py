"""A run on disk: its folder, ledger, results, checkpoints and status.

On the ground floor: importing this imports neither torch nor a simulator. Main names: `RunFolder`,
`load_result`, `read_ledger`.
"""

from __future__ import annotations

from surefoot.runs.audits import (
    AUDIT,
    Audit,
    AuditFinding,
    Kind,
    NotLooked,
    grouped,
    load_audit,
    over,
    save_audit,
)
from surefoot.runs.blocks import BLOCK, load_block, save_block
from surefoot.runs.caveat import caveat
from surefoot.runs.checkpoint import Checkpoint, load_arrays, load_checkpoint, save_checkpoint, section
from surefoot.runs.folder import (
    CHECKPOINTS,
    STATES_VERSION,
    Closing,
    LibraryRecord,
    RunFolder,
    RunRecord,
    run_name,
    timestamp,
    versions,
    waited,
)
from surefoot.runs.hints import resumable, resume_hint, surefoot_command, typed, typed_resume
from surefoot.runs.ids import check_ids, id_problems
from surefoot.runs.ledger import LEDGER_VERSION, LIVE, broken_chain, ledger_fault, read_ledger, without_timing
from surefoot.runs.lock import Holder, appending, is_alive, lock_holder
from surefoot.runs.looks import LOOKS, Look, note_look, scenarios_of
from surefoot.runs.panels import read_panel, read_rows, read_summary
from surefoot.runs.results import Result, load_pass, load_result, perturbed
from surefoot.runs.seal import compare_seal, read_seal
from surefoot.runs.signing import sign, signed_entry
from surefoot.runs.status import record_outcome
from surefoot.runs.times import TimeParts, time_parts
from surefoot.runs.traces import STATES, states_digest

__all__ = [
    "AUDIT",
    "BLOCK",
    "CHECKPOINTS",
    "LEDGER_VERSION",
    "LIVE",
    "LOOKS",
    "STATES",
    "STATES_VERSION",
    "Audit",
    "AuditFinding",
    "Checkpoint",
    "Closing",
    "Holder",
    "Kind",
    "LibraryRecord",
    "Look",
    "NotLooked",
    "Result",
    "RunFolder",
    "RunRecord",
    "TimeParts",
    "appending",
    "broken_chain",
    "caveat",
    "check_ids",
    "compare_seal",
    "grouped",
    "id_problems",
    "is_alive",
    "ledger_fault",
    "load_arrays",
    "load_audit",
    "load_block",
    "load_checkpoint",
    "load_pass",
    "load_result",
    "lock_holder",
    "note_look",
    "over",
    "perturbed",
    "read_ledger",
    "read_panel",
    "read_rows",
    "read_seal",
    "read_summary",
    "record_outcome",
    "resumable",
    "resume_hint",
    "run_name",
    "save_audit",
    "save_block",
    "save_checkpoint",
    "scenarios_of",
    "section",
    "sign",
    "signed_entry",
    "states_digest",
    "surefoot_command",
    "time_parts",
    "timestamp",
    "typed",
    "typed_resume",
    "versions",
    "waited",
    "without_timing",
]
