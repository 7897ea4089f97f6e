"""What an audit expects of its comparisons: the checks, what each means, how grave it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How grave it is when a check does not hold; Great Expectations' own words."""

    CRITICAL = "critical"  # the answers or the log are not what was promised: the audit is red
    WARNING = "warning"  # somebody should look
    INFO = "info"  # good to know, often normal


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation about one column of the comparisons, for every step.

    Args:
        column: the column that is looked at.
        claim: what should hold; the line of the report.
        meaning: what it means when the claim does not hold, and where to look.
        severity: whether a failure makes the audit red.
        least: the least value allowed, None for any.
        greatest: the greatest value allowed, None for any.
        example: word with which ``what`` of this check's examples begins; None: has no examples.
    """

    column: str
    claim: str
    meaning: str
    severity: Severity = Severity.CRITICAL
    least: float | None = 0
    greatest: float | None = 0
    example: str | None = None


CHECKS: tuple[Check, ...] = (
    Check(
        "numbers_missing",
        "Every number of the log stands in events or in quarantine.",
        "Records were received whose number is in neither table: they were lost at the door.",
        example="lost number",
    ),
    Check(
        "numbers_doubled",
        "No number of the log stands twice.",
        "Numbers stand more than once in events and quarantine: records were doubled at the door.",
        example="repeated number",
    ),
    Check(
        "blocks_wrong",
        "Every sealed block agrees with its records, and has its plan.",
        "Figures of blocks (numbers, counts, newest event time, lateness) are not those of their"
        " records, or a block or a plan is lost: events, quarantine, blocks or plans were changed"
        " after sealing.",
        example="block",
    ),
    Check(
        "files_unreadable",
        "Every file could be read, or a person has decided about it.",
        "Files count as one refused record each, because nothing of them could be read: what they"
        " held is in no answer. Mend each and let it be taken again (penstock retake PIPELINE"
        " FILE), or settle that it is lost (penstock accept PIPELINE FILE).",
        example="unreadable file",
    ),
    Check(
        "plans_overdue",
        "No plan of the door waits longer than 15 minutes.",
        "Nothing new comes in: the stream or a preload cannot finish a plan, or read its source, or"
        " does not run. The example names the plan and its first file; penstock status and the"
        " stream's log say why. Mend that (the mount, the disk, memory); a file that can never be"
        " read is moved away and given up (penstock giveup PIPELINE FILE).",
        example="waiting",
    ),
    Check(
        "blocks_overdue",
        "Every step keeps up with the log.",
        "Blocks were sealed and the step has not answered them, though it had the time: what they"
        " hold waits. Where it stands still, the example says why: mend that, then clear the"
        " stream's task, which tries it again. Where no stream runs, start it. Of a step over"
        " answers, too: what a correction has changed below is not taken.",
        severity=Severity.WARNING,
        example="behind",
    ),
    Check(
        "files_changed",
        "No file of the source was changed after it was taken.",
        "Files have another size or modification than what was taken of them; what they hold now"
        " is in no answer. Write what is new to new files, and settle each that was changed"
        " (penstock accept PIPELINE FILE, or the folder); one of which nothing could be read is"
        " taken again (penstock retake PIPELINE FILE).",
        severity=Severity.WARNING,
        example="changed file",
    ),
    Check(
        "batches_wrong",
        "Every sealed micro-batch agrees with the log and with what it wrote.",
        "Rows of control say another position, watermark or count than the log, decisions, late"
        " and answers do: one of these was changed, or a row of control is lost.",
        example="micro-batch",
    ),
    Check(
        "generations_wrong",
        "Every generation starts where the log says.",
        "Rows of registry say another start or watermark than the log and decisions do.",
        example="generation",
    ),
    Check(
        "corrections_wrong",
        "Every correction speaks for what is sealed, and left its answers.",
        "A plan speaks for a position that was never sealed, or is done but its answers are not"
        " there: answers, corrections or control were changed.",
        example="correction",
    ),
    Check(
        "records_unbalanced",
        "Received = accepted + quarantined.",
        "The counts of the sealed blocks do not add up: the difference was lost (or, when"
        " negative, doubled) between the source and the log.",
    ),
    Check(
        "pairs_unaccounted",
        "Every (record, window) pair is on time, late, open, preloaded or excluded.",
        "Pairs are in no account (or, when negative, in two): the step dropped or repeated"
        " records between the log and its answers.",
    ),
    Check(
        "wrong_answers",
        "Every compared answer equals its recomputation.",
        "Answers in force differ from the recomputation over the log, and no correction is"
        " pending for them. Backfill the correction over these windows with recheck.",
        example="wrong",
    ),
    Check(
        "missing_answers",
        "Every closed window with records has an answer.",
        "Closed windows hold records but no answer is in force for them. Backfill the"
        " correction over these windows with recheck.",
        example="missing",
    ),
    Check(
        "extra_answers",
        "Every answer rests on records of the log.",
        "Answers are in force for windows and keys without any record.",
        example="extra",
    ),
    Check(
        "doubled_answers",
        "Every window and key has one answer in force.",
        "Windows and keys have two different answers that both claim to be in force.",
        example="doubled",
    ),
    Check(
        "forged_answers",
        "Every answer is one that its micro-batch or plan could write.",
        "Rows of answers contradict the micro-batch or plan they name (position, closed windows,"
        " range), or their revisions do not count up.",
        example="forged",
    ),
    Check(
        "merged_wrong",
        "Every merged answer is the one in force.",
        "The copy of the answers in force that maintenance merges for readers (table merged) was"
        " changed, or lacks some. The answers themselves are judged apart: delete the copy's"
        " folder, and readers go by them until it is merged anew.",
        example="merged",
    ),
    Check(
        "timely_miscounted",
        "Every timely answer holds as many records as were on time, history included.",
        "Answers of the speed layer, or of the history, are lost, doubled or changed; the answers"
        " in force may be right nevertheless.",
        example="miscounted timely",
    ),
    Check(
        "late_miscounted",
        "Every late record stands in late, and nothing else does.",
        "Rows of late are lost, forged or changed: what they hide is corrected by nobody. Recheck"
        " these windows.",
        example="miscounted late",
    ),
    Check(
        "overdue_answers",
        "No answer waits for its correction longer than two correction intervals.",
        "The correction does not run, or does not keep up with the late records, or never answered"
        " what was in the log before a step started: look at the runs of its DAG.",
        example="overdue",
    ),
    Check(
        "late_without_answer",
        "Every window with late records has an answer or waits for its correction.",
        "Late records never reached an answer, and no correction is planned that would take them.",
        example="late",
    ),
    Check(
        "exclusions_wrong",
        "A step leaves out the records on which its code fails, and no other.",
        "Rows of excluded are lost or forged, or records were left out for nothing.",
        example="exclusion",
    ),
    Check(
        "pairs_excluded",
        "The code of every step takes every record.",
        "Code of yours fails on records: they are in no answer of the step. penstock show says on"
        " which, and where. Mend the code: another text is another step, which begins anew with all"
        " records.",
        severity=Severity.WARNING,
    ),
    Check(
        "quarantined_share",
        "At most 5 % of the received records are quarantined.",
        "Much of the source is refused: look at the reasons in the quarantine table.",
        severity=Severity.WARNING,
        greatest=0.05,
    ),
    Check(
        "readings_assumed",
        "No event time rests on a default meaning of a clock reading.",
        "Event times are readings of a local clock that two instants have, or none (clocks are"
        " changed), and the pipeline file does not say what they mean: the earlier was taken, or"
        " the reading shifted by the gap. Declare ambiguous; column read_as of events marks them.",
        severity=Severity.WARNING,
    ),
    Check(
        "readings_unclear",
        "No event time is a clock reading of a repeated or a skipped hour.",
        "So many were decided by ambiguous: normal where local clocks are read and changed.",
        severity=Severity.INFO,
    ),
    Check(
        "pending_answers",
        "No answer waits for a correction.",
        "Late records came after the last correction: normal, the next one takes them.",
        severity=Severity.INFO,
    ),
    Check(
        "answers_compared",
        "At least one answer of every step was compared.",
        "Of these steps nothing was compared: no window has closed yet, all of them are pending,"
        " the step was never started, or no record passes its where. What was not compared proves"
        " nothing.",
        severity=Severity.WARNING,
        least=1,
        greatest=None,
    ),
)

STEPS_CLAIM = "Every step of the pipeline was compared."
STEPS_MEANING = (
    "The comparisons miss a step of the pipeline, or hold one that it does not have: what was"
    " not compared proves nothing."
)
ONCE_CLAIM = "Every step was compared once."
ONCE_MEANING = "A step has several rows of comparisons: the audit's own sums are not to be trusted."

EXAMPLE_OF: Mapping[str, str] = {check.column: check.example for check in CHECKS if check.example}
