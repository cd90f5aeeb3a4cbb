"""The duties of a manager, and of the main manager: their intervals in seconds, and the conditions for them in SQL."""

import datetime as dt
from typing import Final, LiteralString

from jobs.duties.after_restore import RESTORES_TO_HANDLE, verify_after_restore
from jobs.duties.allocate import GROUPS_TO_GIVE, allocate_groups, retire_groups
from jobs.duties.archives import ARCHIVES_ARE_FULL, hold_jobs_with_archive
from jobs.duties.chains import CHAINED_STARTS, start_successors
from jobs.duties.check import check_invariants
from jobs.duties.cleaning import WITHOUT_TASK_WORKERS, clean_without_task_workers
from jobs.duties.clock import CLOCK_WAS_SET_BACK, follow_clock
from jobs.duties.connectors import WATCHED_JOBS, watch_connectors
from jobs.duties.disks import DISKS_ARE_FULL, report_full_disks
from jobs.duties.evidence import EVIDENCE_TO_CHAIN, append_evidence
from jobs.duties.exchange import (
    HAS_FACTS,
    MAY_EXCHANGE,
    SHARED_JOBS,
    forget_references,
    keep_exchange,
    receive_references,
    send_figures,
)
from jobs.duties.failover import (
    interrupt_dead_one_shots,
    open_gates,
    release_lost_documents,
    withdraw_from_stopped_jobs,
)
from jobs.duties.finish import JOBS_WITHOUT_CLAIMS, end_runs
from jobs.duties.freshness import HOSTS_TO_PRICE, price_looks
from jobs.duties.hand_over import GROUPS_TO_HAND_OVER, hand_over_groups
from jobs.duties.history import HISTORIES_TO_CLEAR, clear_histories, keep_history
from jobs.duties.housekeep import (
    fold_counters,
    forget_old_batches,
    place_bins,
    raise_low_water_marks,
    renew_address_blocks,
    write_address_blocks,
)
from jobs.duties.minute_history import MINUTE_TO_KEEP, keep_minute
from jobs.duties.notices import CHECK_EVERY, NOTICES_TO_CHECK, request_check
from jobs.duties.partitioned_following import follow_runs
from jobs.duties.partitioned_runs import lead_runs, send_jobs
from jobs.duties.partitioned_totals import TOTALS_TO_DIVIDE, divide_totals
from jobs.duties.progress import JOBS_RUN, OF_THE_CLUSTER, charge_waiting_time, coarsen_progress, keep_states
from jobs.duties.recruit import (
    DUE_TASKS,
    DUE_TEMPLATES,
    TASK_WORKERS,
    assign_due_tasks,
    make_due_tasks,
    retire_lost_task_workers,
)
from jobs.duties.requests import OPEN_REQUESTS, answer_requests
from jobs.duties.reseed import JOBS_TO_RESEED, begin_reseeding
from jobs.duties.slot_moves import MOVES, move_slots
from jobs.duties.start import JOBS_TO_PREPARE, SEEDING_JOBS, prepare_runs, seed_seeds
from jobs.duties.stuff import stuff_groups, wake_late_lanes
from jobs.duties.tags import TAGS_ARE_NEEDED, report_missing_tags
from jobs.duties.tombstones import keep_tombstones
from jobs.duties.transient_jobs import PASSING_JOBS, pass_on
from jobs.duties.versions import SURPLUS_VERSIONS, remove_surplus_versions
from jobs.duties.webmasters import LIMITS_TO_END, end_webmasters_limits
from jobs.duties.windows import SCHEDULED_JOBS, apply_windows
from jobs.loops.loop import ALWAYS, Duty, duties
from jobs.queue.address_index import WAITING as NEW_ADDRESSES
from jobs.queue.counting.counters import COUNTS_TO_FOLD
from jobs.queue.flushing.gates import GATES_OF_LOST_NODES
from jobs.queue.pace.addresses import WANTED_PLACINGS
from jobs.queue.release import HELD_BY_LOST_WORKERS, OFFERED_OF_STOPPED_JOBS, RESERVED_FOR_ABSENT

# Pause of the exchange with other partitions while documents flow steadily. A short delay of the exchange does no harm,
# because each partition has other documents meanwhile.
_IN_FLOW: Final = dt.timedelta(seconds=1)
_OF_SCOPE: Final[LiteralString] = "SELECT FROM jobs_job WHERE node_scope = %(scope)s"

MAIN_DUTIES: Final = duties(
    (watch_connectors, 5.0, f"EXISTS ({WATCHED_JOBS})"),
    (apply_windows, 2.0, f"EXISTS ({SCHEDULED_JOBS})"),
    (answer_requests, 0.3, f"EXISTS ({OPEN_REQUESTS})"),
    (allocate_groups, 1.0, GROUPS_TO_GIVE),
    (report_missing_tags, 2.0, TAGS_ARE_NEEDED),
    (report_full_disks, 1.0, DISKS_ARE_FULL),
    (hold_jobs_with_archive, 1.0, ARCHIVES_ARE_FULL),
    (follow_clock, 5.0, CLOCK_WAS_SET_BACK),
    (retire_groups, 10.0, "EXISTS (SELECT FROM jobs_throttlegroup WHERE node_scope = %(scope)s)"),
    (prepare_runs, 1.0, f"EXISTS ({JOBS_TO_PREPARE})"),
    (withdraw_from_stopped_jobs, 1.0, f"EXISTS ({OFFERED_OF_STOPPED_JOBS})"),
    (release_lost_documents, 1.0, f"EXISTS ({HELD_BY_LOST_WORKERS}) OR EXISTS ({RESERVED_FOR_ABSENT})"),
    (open_gates, 1.0, f"EXISTS ({GATES_OF_LOST_NODES})"),
    (end_runs, 0.3, f"EXISTS ({JOBS_WITHOUT_CLAIMS})"),
    (pass_on, 1.0, f"EXISTS ({PASSING_JOBS})"),
    (start_successors, 0.3, f"EXISTS ({CHAINED_STARTS})"),
    (begin_reseeding, 2.0, f"EXISTS ({JOBS_TO_RESEED})"),
    (interrupt_dead_one_shots, 2.0, ALWAYS),
    (place_bins, 1.0, f"EXISTS ({WANTED_PLACINGS})"),
    (fold_counters, 1.0, COUNTS_TO_FOLD),
    (raise_low_water_marks, 2.0, ALWAYS),
    (write_address_blocks, 10.0, f"EXISTS ({NEW_ADDRESSES})"),
    (renew_address_blocks, 600.0, OF_THE_CLUSTER),
    (retire_lost_task_workers, 1.0, TASK_WORKERS),
    (make_due_tasks, 1.0, DUE_TEMPLATES),
    (assign_due_tasks, 0.3, DUE_TASKS),
    (request_check, CHECK_EVERY, NOTICES_TO_CHECK),
    (verify_after_restore, 2.0, RESTORES_TO_HANDLE),
    (keep_exchange, 5.0, MAY_EXCHANGE),
    (move_slots, 0.5, f"{MAY_EXCHANGE} AND {MOVES}"),
    Duty(lead_runs, dt.timedelta(seconds=0.5), HAS_FACTS, in_flow=_IN_FLOW),
    (send_jobs, 5.0, SHARED_JOBS),
    Duty(follow_runs, dt.timedelta(seconds=0.5), HAS_FACTS, in_flow=_IN_FLOW),
    (divide_totals, 1.0, TOTALS_TO_DIVIDE),
    Duty(
        receive_references,
        dt.timedelta(seconds=0.1),
        SHARED_JOBS,
        collect=dt.timedelta(seconds=0.4),
        in_flow=_IN_FLOW,
    ),
    (send_figures, 2.0, SHARED_JOBS),
    (forget_references, 10.0, SHARED_JOBS),
    (forget_old_batches, 60.0, ALWAYS),
    (keep_history, 600.0, ALWAYS),
    (keep_tombstones, 600.0, ALWAYS),
    (end_webmasters_limits, 60.0, LIMITS_TO_END),
    (append_evidence, 15.0, EVIDENCE_TO_CHAIN),
    (clear_histories, 2.0, f"EXISTS ({HISTORIES_TO_CLEAR})"),
    (check_invariants, 15.0, OF_THE_CLUSTER),
    (charge_waiting_time, 5.0, JOBS_RUN),
    (keep_states, 30.0, JOBS_RUN),
    (coarsen_progress, 600.0, OF_THE_CLUSTER),
    (remove_surplus_versions, 1.0, f"EXISTS ({SURPLUS_VERSIONS})"),
    (price_looks, 1.0, f"EXISTS ({HOSTS_TO_PRICE})"),
    (keep_minute, 20.0, MINUTE_TO_KEEP),
    (clean_without_task_workers, 600.0, WITHOUT_TASK_WORKERS),
)
OWNER_DUTIES: Final = duties(
    (hand_over_groups, 0.3, GROUPS_TO_HAND_OVER),
    (seed_seeds, 0.3, f"EXISTS ({SEEDING_JOBS})"),
    (stuff_groups, 0.1, f"EXISTS ({_OF_SCOPE} AND phase IN ('active', 'shutting_down', 'deleting'))"),
    (wake_late_lanes, 1.0, f"EXISTS ({_OF_SCOPE} AND phase IN ('active', 'shutting_down', 'deleting'))"),
)
